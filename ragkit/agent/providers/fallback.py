"""A fallback chain of providers, with a circuit breaker for each."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from threading import Lock
from types import TracebackType

from ragkit.agent.providers.base import METHODS, Completion, ModelRequest, Provider, StreamCompleted, StreamDelta
from ragkit.agent.providers.error_mapping import from_exception
from ragkit.agent.providers.signatures import adapt_provider
from ragkit.argument_types import check_types
from ragkit.errors import InvalidOption, InvalidRequest, ProviderError


@dataclass(slots=True)
class _CircuitBreaker:
    failures: int = 0
    open_until: float = 0.0


@check_types(skip=METHODS)
class FallbackProvider(Provider):
    """Tries providers in order until one answers.

    After `max_failures` failures in a row a provider is skipped for `cooldown_s` seconds; then one request may
    try it again. An InvalidRequest is raised at once: the next provider would get the same request.
    A stream falls back by itself only before its first chunk. A failure after it is raised; if the agent sends the
    request again, it goes to the next provider.

    Args:
        providers: in order of preference.
        models: the model of each provider; None: the first uses the request's model, the others their own
            default.
        max_failures: consecutive failures that open a provider's circuit.
        cooldown_s: seconds for which a provider with an open circuit is skipped.
        clock: monotonic seconds; for tests.
    """

    name = "fallback"

    def __init__(
        self,
        providers: Sequence[Provider],
        *,
        models: Sequence[str] | None = None,
        max_failures: int = 3,
        cooldown_s: float = 60.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if not providers:
            raise InvalidOption("the providers of FallbackProvider", [], "one or more")
        if models is not None and len(models) != len(providers):
            expected = f"{len(providers)}, one per provider"
            raise InvalidOption("the number of models of FallbackProvider", len(models), expected)
        providers = self.providers = tuple(map(adapt_provider, providers))
        self.default_model = models[0] if models else providers[0].default_model
        self.writes_calls = any(provider.writes_calls for provider in providers)
        self.on_this_machine = all(provider.on_this_machine for provider in providers)
        self.native_tools = all(provider.native_tools for provider in providers)
        self.blocking = any(provider.blocking for provider in providers)
        self.remote = any(provider.remote for provider in providers)
        self._models = models
        self._max_failures, self._cooldown_s, self._clock = max_failures, cooldown_s, clock
        self._circuits = [_CircuitBreaker() for _ in providers]
        self._lock = Lock()

    def complete(self, request: ModelRequest) -> Completion:
        """Return the answer of the first provider that succeeds."""
        chain = _FallbackChain(self, request)
        for provider, model_request in chain:
            with chain:
                return chain.add_provider_info(provider.complete(model_request))
        raise chain.error

    async def acomplete(self, request: ModelRequest) -> Completion:
        """Return the answer of the first provider that succeeds."""
        chain = _FallbackChain(self, request)
        for provider, model_request in chain:
            with chain:
                return chain.add_provider_info(await provider.acomplete(model_request))
        raise chain.error

    def stream(self, request: ModelRequest) -> Iterator[StreamDelta]:
        """Stream the answer of the first provider that sends a chunk."""
        chain = _FallbackChain(self, request)
        for provider, model_request in chain:
            with chain:
                for delta in provider.stream(model_request):
                    yield chain.forward(delta)
                return
        raise chain.error

    async def astream(self, request: ModelRequest) -> AsyncIterator[StreamDelta]:
        """Stream the answer of the first provider that sends a chunk."""
        chain = _FallbackChain(self, request)
        for provider, model_request in chain:
            with chain:
                async for delta in provider.astream(model_request):
                    yield chain.forward(delta)
                return
        raise chain.error

    def available_names(self) -> list[str]:
        """Names of the providers that are not skipped."""
        return [self.providers[index].name for index in sorted(self.available_indices())]

    def available_indices(self) -> set[int]:
        """Indices of the providers that are not skipped."""
        now = self._clock()
        return {index for index, circuit in enumerate(self._circuits) if circuit.open_until <= now}

    def model_for(self, index: int, request: ModelRequest) -> str:
        """The request for the provider at `index`."""
        if self._models is not None:
            return self._models[index]
        return request.model if index == 0 else self.providers[index].default_model

    def allow_request(self, index: int) -> bool:
        """Whether the provider may be tried. An open circuit lets one request through after its cooldown."""
        with self._lock:
            circuit = self._circuits[index]
            if circuit.open_until > self._clock():
                return False
            if circuit.failures >= self._max_failures:
                circuit.open_until = self._clock() + self._cooldown_s
            return True

    def record_result(self, index: int, *, failed: bool) -> None:
        """Count a failure, or reset the count."""
        with self._lock:
            circuit = self._circuits[index]
            circuit.failures = circuit.failures + 1 if failed else 0
            circuit.open_until = 0.0
            if circuit.failures >= self._max_failures:
                circuit.open_until = self._clock() + self._cooldown_s


class _FallbackChain:
    """One request to the chain: iterate over the providers, and try each inside `with`."""

    def __init__(self, owner: FallbackProvider, request: ModelRequest) -> None:
        self._owner, self._request = owner, request
        self._index = 0
        self._stream_started = False
        self._errors: list[str] = []
        self._failed = set[int]()
        self.error: ProviderError = ProviderError(owner.name, "all providers are skipped after repeated failures")

    def __iter__(self) -> Iterator[tuple[Provider, ModelRequest]]:
        self._failed |= self._request.failed_in_chain
        for index, provider in enumerate(self._owner.providers):
            if index not in self._failed and self._owner.allow_request(index):
                self._index = index
                model = self._owner.model_for(index, self._request)
                yield provider, replace(self._request, model=model, failed_in_chain=frozenset())

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        """Record the outcome; True continues with the next provider."""
        if error is None:
            self._owner.record_result(self._index, failed=False)
        provider = self._owner.providers[self._index]
        failure = from_exception(provider.name, "", error) if isinstance(error, Exception) else None
        if failure is None or isinstance(failure, InvalidRequest):
            return False
        self._owner.record_result(self._index, failed=True)
        self._errors.append(str(failure))
        self.error = failure
        self._failed.add(self._index)
        goes_on = self._stream_started and self._owner.available_indices() - self._failed
        failure.failed_in_chain = frozenset(self._failed if goes_on else ())
        if self._stream_started and failure is not error:
            raise failure
        return not self._stream_started

    def add_provider_info(self, completion: Completion) -> Completion:
        """The completion with its provider and the errors of the providers before."""
        provider = self._owner.providers[self._index]
        return replace(
            completion,
            provider=completion.provider or provider.name,
            model=completion.model or self._owner.model_for(self._index, self._request),
            fallback_errors=tuple(self._errors),
        )

    def forward(self, delta: StreamDelta) -> StreamDelta:
        """Mark the stream as started: it can no longer fall back."""
        self._stream_started = True
        return (
            StreamCompleted(self.add_provider_info(delta.completion)) if isinstance(delta, StreamCompleted) else delta
        )
