"""Which diseases and drugs do the synthetic hospitals know?

Sixteen phenotypes with the codes a clinician would expect, and the common codes that belong to no
phenotype. Diagnoses and procedures carry ICD-9-CM codes and titles; medications and laboratory
results have no free code system, so their code is their name as a slug.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

# A number is the probability that a visit for the phenotype records the code. The sickle-cell
# phenotype has the diagnoses and medications of the seed paper's table, each fairly improbable.
_PHENOTYPES = """
# Diabetes with hypertension
medication: Metformin 0.8 | Lisinopril 0.7 | Insulin glargine 0.6 | Insulin lispro 0.5
medication: Glipizide 0.5 | Hydrochlorothiazide 0.5
diagnosis: 250.00 Diabetes mellitus type 2, uncomplicated 0.85 | 401.9 Hypertension NOS 0.8
diagnosis: 272.0 Pure hypercholesterolemia 0.5 | 250.60 Diabetes with neuropathy 0.4
diagnosis: 362.01 Background diabetic retinopathy 0.3
lab: Glucose high 0.9 | Hemoglobin A1c high 0.8 | Urine albumin high 0.5 | Triglycerides high 0.5
procedure: 99.17 Injection of insulin 0.7 | 95.02 Comprehensive eye examination 0.5
# Coronary artery disease
medication: Aspirin 0.9 | Atorvastatin 0.8 | Metoprolol 0.7 | Clopidogrel 0.6
medication: Nitroglycerin 0.5 | Isosorbide mononitrate 0.4
diagnosis: 414.01 Coronary atherosclerosis of native artery 0.9 | 272.4 Hyperlipidemia NOS 0.7
diagnosis: 413.9 Angina pectoris NOS 0.6 | 412 Old myocardial infarction 0.5
diagnosis: 410.71 Subendocardial infarction, initial episode 0.4
lab: Troponin T high 0.7 | CK-MB high 0.6 | LDL cholesterol high 0.6 | Creatine kinase high 0.4
procedure: 37.22 Left heart cardiac catheterization 0.7 | 88.56 Coronary arteriography 0.6
procedure: 00.66 Percutaneous coronary angioplasty 0.6 | 36.07 Drug-eluting coronary stent 0.4
# Heart failure
medication: Furosemide 0.9 | Carvedilol 0.7 | Digoxin 0.5 | Warfarin 0.5 | Spironolactone 0.5
medication: Bumetanide 0.3
diagnosis: 428.0 Congestive heart failure NOS 0.9 | 428.22 Chronic systolic heart failure 0.6
diagnosis: 427.31 Atrial fibrillation 0.5 | 425.4 Primary cardiomyopathy NEC 0.4
diagnosis: 428.23 Acute on chronic systolic heart failure 0.4
lab: NT-proBNP high 0.9 | Sodium low 0.5 | INR high 0.5 | Digoxin level high 0.3
procedure: 88.72 Diagnostic ultrasound of heart 0.8 | 37.21 Right heart catheterization 0.4
procedure: 37.94 Implantation of cardioverter-defibrillator 0.3
# Depression and anxiety
medication: Sertraline 0.7 | Trazodone 0.6 | Citalopram 0.6 | Bupropion 0.5 | Clonazepam 0.5
medication: Buspirone 0.4
diagnosis: 311 Depressive disorder NEC 0.8 | 300.00 Anxiety state NOS 0.8
diagnosis: 296.20 Major depressive disorder, single episode 0.6 | 300.01 Panic disorder 0.4
diagnosis: 296.30 Major depressive disorder, recurrent 0.5
lab: Urine toxicology positive 0.6 | Vitamin B12 low 0.6 | Prolactin high 0.5 | Cortisol high 0.4
procedure: 94.25 Psychiatric drug therapy NEC 0.8 | 94.38 Supportive verbal psychotherapy 0.7
# Chronic kidney disease
medication: Sevelamer 0.8 | Epoetin alfa 0.7 | Calcitriol 0.6 | Amlodipine 0.5
medication: Calcium acetate 0.4 | Cinacalcet 0.4
diagnosis: 585.6 End stage renal disease 0.7 | 585.4 Chronic kidney disease, stage IV 0.6
diagnosis: 403.91 Hypertensive kidney disease, stage V 0.6 | 285.21 Anemia in kidney disease 0.6
diagnosis: 588.81 Secondary hyperparathyroidism, renal 0.5
lab: Creatinine high 0.9 | Urea nitrogen high 0.8 | Phosphate high 0.7 | Potassium high 0.5
procedure: 39.95 Hemodialysis 0.8 | 38.95 Venous catheterization for renal dialysis 0.5
# Cystic fibrosis with pancreatic involvement
medication: Pancrelipase 0.9 | Dornase alfa 0.8 | Tobramycin inhaled 0.7
medication: Hypertonic saline inhaled 0.6 | Multivitamin ADEK 0.6 | Aztreonam 0.4 | Ivacaftor 0.3
diagnosis: 277.02 Cystic fibrosis with pulmonary manifestations 0.8
diagnosis: 277.03 Cystic fibrosis with gastrointestinal manifestations 0.7
diagnosis: 577.8 Pancreatic disease NEC 0.7 | 494.0 Bronchiectasis without exacerbation 0.5
diagnosis: 041.7 Pseudomonas infection NOS 0.5
lab: Sputum Pseudomonas positive 0.8 | Fecal elastase low 0.7 | Vitamin D low 0.6
lab: Vitamin A low 0.5
procedure: 93.99 Respiratory physiotherapy NEC 0.8 | 33.24 Closed biopsy of bronchus 0.5
# Sickle cell / chronic pain crisis
medication: Hydroxyurea 0.6 | Hydromorphone 0.6 | Folic acid 0.55 | Diphenhydramine 0.5
medication: Docusate 0.45 | Acetaminophen 0.4 | Deferasirox 0.35 | Zolpidem 0.35 | Baclofen 0.3
diagnosis: 282.60 Sickle cell disease NOS 0.6 | 282.62 Hb-SS disease with crisis 0.6
diagnosis: 338.4 Chronic pain syndrome 0.55 | 564.00 Constipation NOS 0.5
diagnosis: 780.96 Generalized pain 0.45 | 698.9 Pruritic disorder NOS 0.35 | 784.0 Headache 0.35
diagnosis: 780.52 Insomnia NOS 0.35 | 786.07 Wheezing 0.3
lab: Hemoglobin low 0.7 | Reticulocytes high 0.7 | Lactate dehydrogenase high 0.6
lab: Hemoglobin S present 0.6 | Ferritin high 0.4
procedure: 99.04 Transfusion of packed cells 0.7 | 99.01 Exchange transfusion 0.4
procedure: 03.91 Injection of anesthetic into spinal canal 0.3
# COPD exacerbation
medication: Tiotropium 0.8 | Ipratropium 0.7 | Prednisone 0.7 | Azithromycin 0.5
medication: Formoterol 0.4 | Nicotine 0.3
diagnosis: 491.21 Obstructive chronic bronchitis with exacerbation 0.9
diagnosis: 496 Chronic airway obstruction NEC 0.7 | 305.1 Tobacco use disorder 0.6
diagnosis: 799.02 Hypoxemia 0.5 | 492.8 Emphysema NEC 0.4
lab: Arterial pCO2 high 0.8 | Arterial pO2 low 0.7 | Bicarbonate high 0.5 | Arterial pH low 0.4
procedure: 93.94 Nebulized respiratory medication 0.7 | 93.90 Non-invasive ventilation 0.6
# Decompensated cirrhosis
medication: Lactulose 0.9 | Spironolactone 0.7 | Rifaximin 0.6 | Furosemide 0.5 | Nadolol 0.5
medication: Albumin human 0.5 | Thiamine 0.4
diagnosis: 571.2 Alcoholic cirrhosis of liver 0.8 | 789.59 Ascites NEC 0.8
diagnosis: 572.2 Hepatic encephalopathy 0.6 | 572.3 Portal hypertension 0.5
diagnosis: 571.5 Cirrhosis of liver without alcohol 0.4
lab: Bilirubin high 0.9 | Albumin low 0.7 | Platelets low 0.6 | Ammonia high 0.5 | INR high 0.5
procedure: 54.91 Percutaneous abdominal drainage 0.8 | 42.33 Endoscopic banding of varices 0.5
# Asthma
medication: Albuterol 0.9 | Fluticasone 0.7 | Montelukast 0.6 | Budesonide 0.5 | Loratadine 0.5
medication: Omalizumab 0.3
diagnosis: 493.90 Asthma NOS 0.8 | 493.92 Asthma NOS with acute exacerbation 0.7
diagnosis: 477.9 Allergic rhinitis NOS 0.7 | 691.8 Atopic dermatitis 0.4 | 471.9 Nasal polyp NOS 0.4
lab: Eosinophils high 0.8 | Immunoglobulin E high 0.7 | Peak flow low 0.7
procedure: 89.37 Vital capacity determination 0.7 | 93.94 Nebulized respiratory medication 0.6
# Sepsis with pneumonia
medication: Vancomycin 0.8 | Piperacillin-tazobactam 0.8 | Norepinephrine 0.5 | Ceftriaxone 0.5
medication: Levofloxacin 0.5 | Meropenem 0.4
diagnosis: 038.9 Septicemia NOS 0.8 | 486 Pneumonia, organism NOS 0.8 | 995.91 Sepsis 0.6
diagnosis: 518.81 Acute respiratory failure 0.5 | 785.52 Septic shock 0.4
lab: Lactate high 0.8 | White cells high 0.8 | Procalcitonin high 0.6 | Blood culture positive 0.5
procedure: 38.93 Venous catheterization NEC 0.7 | 96.04 Insertion of endotracheal tube 0.6
procedure: 96.72 Mechanical ventilation, 96 hours or more 0.4
# Hypothyroidism
medication: Levothyroxine 0.9 | Cholecalciferol 0.7 | Calcium carbonate 0.6 | Alendronate 0.6
medication: Estradiol 0.4 | Liothyronine 0.3
diagnosis: 244.9 Hypothyroidism NOS 0.9 | 245.2 Chronic lymphocytic thyroiditis 0.6
diagnosis: 733.00 Osteoporosis NOS 0.6 | 783.1 Abnormal weight gain 0.5
diagnosis: 241.0 Nontoxic uninodular goiter 0.4
lab: Thyrotropin high 0.9 | Free thyroxine low 0.7 | Thyroid peroxidase antibodies high 0.6
procedure: 88.71 Diagnostic ultrasound of head and neck 0.7 | 92.01 Thyroid scan 0.6
# Neurogenic bladder with abdominal pain
medication: Oxybutynin 0.8 | Nitrofurantoin 0.7 | Ciprofloxacin 0.6 | Tizanidine 0.5
medication: Tamsulosin 0.5 | Bethanechol 0.4
diagnosis: 596.54 Neurogenic bladder NOS 0.9 | 599.0 Urinary tract infection NOS 0.7
diagnosis: 789.00 Abdominal pain, unspecified site 0.6 | 344.1 Paraplegia NOS 0.6
diagnosis: 741.90 Spina bifida 0.3
lab: Urine white cells high 0.8 | Urine culture positive 0.7 | Urine nitrite positive 0.7
procedure: 57.94 Insertion of indwelling urinary catheter 0.8 | 57.32 Cystoscopy 0.5
# Non-specific gastrointestinal complaints
medication: Omeprazole 0.7 | Metoclopramide 0.7 | Dicyclomine 0.6 | Simethicone 0.6
medication: Loperamide 0.5 | Promethazine 0.5
diagnosis: 787.02 Nausea alone 0.8 | 787.91 Diarrhea 0.7 | 564.1 Irritable bowel syndrome 0.7
diagnosis: 536.8 Stomach function disorder NEC 0.5 | 787.3 Flatulence, eructation and gas pain 0.4
lab: Lipase high 0.6 | Stool occult blood positive 0.6 | Helicobacter pylori positive 0.6
procedure: 45.23 Colonoscopy 0.7 | 45.16 Upper endoscopy with closed biopsy 0.7
# Lymphoma
medication: Rituximab 0.8 | Cyclophosphamide 0.7 | Doxorubicin 0.6 | Vincristine 0.6
medication: Filgrastim 0.6 | Allopurinol 0.4
diagnosis: 202.80 Malignant lymphoma NEC 0.8 | V58.11 Antineoplastic chemotherapy 0.8
diagnosis: 288.03 Drug induced neutropenia 0.6 | 785.6 Enlargement of lymph nodes 0.5
diagnosis: 284.19 Pancytopenia NEC 0.4
lab: Neutrophils low 0.8 | Beta-2 microglobulin high 0.7 | Uric acid high 0.6
lab: Lactate dehydrogenase high 0.5
procedure: 99.25 Chemotherapeutic infusion 0.9 | 41.31 Biopsy of bone marrow 0.5
# Epilepsy
medication: Levetiracetam 0.9 | Lamotrigine 0.6 | Valproate 0.6 | Phenytoin 0.6
medication: Carbamazepine 0.4 | Lacosamide 0.4
diagnosis: 345.90 Epilepsy NOS 0.8 | 780.39 Convulsions NEC 0.7
diagnosis: 345.10 Generalized convulsive epilepsy 0.6 | 345.3 Grand mal status 0.5
diagnosis: 348.30 Encephalopathy NOS 0.4
lab: Phenytoin level high 0.7 | Valproate level low 0.7 | Prolactin high 0.6
procedure: 89.14 Electroencephalogram 0.8 | 89.19 Video and radio-telemetered EEG monitoring 0.6
"""

# What any patient may have: the most popular codes of the background.
_COMMON = """
medication: Sodium chloride 0.9% | Ondansetron | Pantoprazole | Heparin | Potassium chloride
medication: Magnesium sulfate | Lorazepam | Ibuprofen | Famotidine | Morphine | Cefazolin | Senna
medication: Oxycodone | Fentanyl | Lidocaine | Dextrose 50% | Bisacodyl | Ketorolac | Gabapentin
medication: Influenza vaccine | Multivitamin | Simvastatin | Losartan | Amoxicillin | Cephalexin
medication: Tramadol | Cyclobenzaprine | Naproxen | Ranitidine | Propofol | Midazolam | Methadone
diagnosis: 780.60 Fever NOS | 786.50 Chest pain NOS | 780.79 Malaise and fatigue NEC
diagnosis: 530.81 Esophageal reflux | 276.8 Hypopotassemia | 276.51 Dehydration | 285.9 Anemia NOS
diagnosis: 724.2 Lumbago | 278.00 Obesity NOS | 465.9 Acute upper respiratory infection NOS
diagnosis: V58.69 Long-term use of other medications | 780.2 Syncope and collapse
diagnosis: 786.05 Shortness of breath | 780.4 Dizziness and giddiness | 719.46 Joint pain, leg
diagnosis: 782.3 Edema | 715.90 Osteoarthrosis NOS | 787.03 Vomiting alone | 786.2 Cough
diagnosis: 682.9 Cellulitis NOS | 276.1 Hyposmolality | 287.5 Thrombocytopenia NOS
diagnosis: 366.9 Cataract NOS | V04.81 Influenza vaccination | 729.5 Pain in limb
lab: Hematocrit low | Calcium low | Magnesium low | Red cells low | Chloride high | Glucose low
lab: Potassium low | Anion gap high | Alanine aminotransferase high | Lymphocytes low
lab: Alkaline phosphatase high | Red cell width high | Base excess low | Partial thromboplastin high
lab: Sodium high | Phosphate low | Neutrophils high | Monocytes high | Urine protein high
procedure: 87.44 Routine chest x-ray | 89.52 Electrocardiogram | 99.21 Injection of antibiotic
procedure: 88.38 Computerized axial tomography NEC | 96.6 Enteral infusion of nutrients
procedure: 93.39 Physical therapy NEC | 99.55 Vaccination NEC | 87.03 CT scan of head
procedure: 88.76 Diagnostic ultrasound of abdomen | 86.59 Closure of skin NEC | 93.96 Oxygen NEC
"""

_CODED = ("diagnosis", "procedure")


@dataclass(frozen=True)
class PlantedPhenotype:
    """A phenotype that is in the data because we put it there.

    ``weights[mode][code]`` is the probability that a visit for this phenotype records the code, and
    ``prevalence[k]`` the share of hospital k's patients who have it.
    """

    name: str
    weights: Mapping[str, Mapping[str, float]]
    prevalence: tuple[float, ...]


def slug(text: str) -> str:
    """A name as a code: ``Insulin glargine`` becomes ``insulin-glargine``."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


def _entry(mode: str, text: str) -> tuple[str, str]:
    """Code and label of one catalogue entry."""
    if mode in _CODED:
        code, label = text.split(" ", 1)
        return code, label
    return slug(text), text


def _lines(text: str) -> list[tuple[str, list[str]]]:
    pairs = [line.split(": ", 1) for line in text.strip().splitlines()]
    return [(mode, [item.strip() for item in items.split("|")]) for mode, items in pairs]


def _read_catalogue() -> tuple[dict[str, dict[str, dict[str, float]]], dict[str, dict[str, str]]]:
    """Phenotype → mode → code → weight, and mode → code → label of all that is named."""
    phenotypes: dict[str, dict[str, dict[str, float]]] = {}
    labels: dict[str, dict[str, str]] = {}
    for block in _PHENOTYPES.strip().removeprefix("# ").split("\n# "):
        name, text = block.split("\n", 1)
        weights = phenotypes.setdefault(name, {})
        for mode, items in _lines(text):
            for item in items:
                words, weight = item.rsplit(" ", 1)
                code, label = _entry(mode, words)
                weights.setdefault(mode, {})[code] = float(weight)
                labels.setdefault(mode, {})[code] = label
    for mode, items in _lines(_COMMON):
        labels.setdefault(mode, {}).update(_entry(mode, item) for item in items)
    return phenotypes, labels


_WEIGHTS, _LABELS = _read_catalogue()
PHENOTYPE_NAMES = tuple(_WEIGHTS)
CATALOGUE_MODES = ("medication", "diagnosis", "lab", "procedure")


def catalogue_weights(name: str, modes: Sequence[str]) -> dict[str, dict[str, float]]:
    """The codes of one catalogue phenotype in the modes asked for (those the catalogue has)."""
    return {mode: dict(_WEIGHTS[name][mode]) for mode in modes if mode in _WEIGHTS[name]}


def common_codes(mode: str) -> list[str]:
    """The codes of a mode that belong to no phenotype, most popular first."""
    return [
        _entry(mode, item)[0] for known, items in _lines(_COMMON) if known == mode for item in items
    ]


def label_of(mode: str, code: str) -> str:
    """What a reader calls the code; codes outside the catalogue are spelt out."""
    known = _LABELS.get(mode, {}).get(code)
    return known if known is not None else code.replace("-", " ")
