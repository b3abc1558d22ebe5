"""Drug names become ingredients by rule."""

from collections import Counter

import pytest

from tripheno.records.drugs import DrugAxis, ingredient_of, is_carrier, read_drug_table

NAMES = {
    "ASPIRIN EC 81 MG PO TBEC": "aspirin",
    "1 ML  -  DIPHENHYDRAMINE HCL 50 MG/ML IJ SOLN": "diphenhydramine",
    "METOPROLOL TARTRATE 25 MG PO TABS": "metoprolol",
    "Piperacillin-Tazobactam Na": "piperacillin + tazobactam",
    "HYDROCODONE-ACETAMINOPHEN 5-325 MG PO TABS": "acetaminophen + hydrocodone",
    "acetaminophen/hydrocodone": "acetaminophen + hydrocodone",
    "VANCOmycin 1 GM in NS 250 mL IVPB": "vancomycin",
    "15 ML CUP : POTASSIUM CHLORIDE 10 % ORAL LIQD": "potassium chloride",
    "aspirin 81 MG Oral Tablet": "aspirin",
    "0.9% Sodium Chloride (Mini Bag Plus)": "carrier:sodium chloride",
    "NS": "carrier:sodium chloride",
    "1000 ML FLEX CONT : SODIUM CHLORIDE 0.9 % IV SOLN": "carrier:sodium chloride",
    "1000 ML : DEXTROSE-NACL 5-0.45 % IV SOLN": "carrier:sodium chloride",
    "SODIUM CHLORIDE 3 % IV SOLN": "sodium chloride",
    "Sodium Chloride 0.9%  Flush": "carrier:sodium chloride",
    "D5W (Glass Bottle)": "carrier:dextrose",
    "Dextrose 5%": "carrier:dextrose",
    "Dextrose 50%": "dextrose",
    "Sodium Chloride 3% (Hypertonic)": "sodium chloride",
    "Bag": "carrier:container",
    "12345": "12345",
    "Vitamin D 400 UNIT TAB": "vitamin d",
    "Vitamin B-12 1000 mcg": "vitamin b12",
    "VITAMIN E-400": "vitamin e",
    "Penicillin G Potassium 2 MU IV": "penicillin g",
    "Hepatitis B Vaccine": "hepatitis b vaccine",
    "5-ASA 400 mg": "mesalamine",
    "Paracétamol 500 mg": "paracétamol",
}


@pytest.mark.parametrize("name", NAMES)
def test_a_name_is_folded_to_its_ingredient(name):
    assert ingredient_of(name) == NAMES[name]


def test_a_code_takes_its_commonest_name_and_lends_it_to_brands():
    uses = [
        ("2839", "ONDANSETRON", 5),
        ("2839", "Zofran", 2),
        ("zofran", "ZOFRAN", 1),
        ("7", None, 3),
    ]
    found, told = DrugAxis().groups(uses)
    assert {code: ingredient for code, ingredient, _ in found} == {
        "2839": "ondansetron", "zofran": "ondansetron", "7": "HICL:7",
    }  # fmt: skip
    assert told == Counter({"by name": 2, "without a name": 1, "carriers": 0})


def test_a_hospitals_own_table_wins(tmp_path):
    path = tmp_path / "drugs.csv"
    path.write_text("ndc,ingredient\n51079030020,clonidine\n")
    found, told = read_drug_table(path).groups([("NDC:51079030020", "Catapres", 1)])
    assert found == [("NDC:51079030020", "clonidine", "clonidine")]
    assert told["by table"] == 1


def test_saline_flushes_bags_and_diluents_are_carriers_and_drugs_are_not():
    carriers = ["0.9% Sodium Chloride", "NS flush", "Bag", "5% Dextrose", "Sterile Water"]
    assert all(is_carrier(ingredient_of(name)) for name in carriers)
    drugs = ["Aspirin", "Vancomycin in NS", "Sodium Chloride 3%", "Potassium Chloride"]
    assert not any(is_carrier(ingredient_of(name)) for name in drugs)
