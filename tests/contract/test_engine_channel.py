"""The engine's channel keeps the contract of every channel: over real processes and mutual TLS."""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack

import pytest

from tripheno.exchange.channel import Channel, Responder
from tripheno.federation.channel import EngineChannel
from tripheno.testing.channel_contract import HOSPITALS, ChannelContract
from tripheno.testing.engine_federation import EngineFederation

_made: dict[str, object] = {}


@pytest.fixture(scope="module", autouse=True)
def federation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """One federation for all tests of this file: starting it takes longer than they do."""
    with ExitStack() as stack:
        made = EngineFederation(tmp_path_factory.mktemp("federation"), HOSPITALS)
        stack.enter_context(made.running())
        _made["line"], _made["counters"] = stack.enter_context(made.line())
        yield


class TestEngineChannel(ChannelContract):
    def make_channel(self, responders: Mapping[str, Responder]) -> Channel:
        for name, respond in responders.items():
            _made["counters"][name].respond_with(respond)
        return EngineChannel(_made["line"])
