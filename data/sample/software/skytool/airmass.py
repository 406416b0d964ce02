"""Airmass, extinction and twilight for Varnmoor: small functions without dependencies.

Used by the night log and by observers at the prompt:

    >>> round(airmass(30.0), 2)
    1.99
    >>> extinction(60.0, "V")
    0.16
"""

from __future__ import annotations

import math

LOWEST_ALTITUDE = 18.0
"""Degrees. The Aldane Telescope's mirror cover touches the pier below this altitude."""

EXTINCTION = {"B": 0.23, "V": 0.14, "r": 0.10, "i": 0.06}
"""Magnitudes per unit airmass: the medians of 412 photometric nights between 2016 and 2025."""

TWILIGHT = {"civil": -6.0, "nautical": -12.0, "photometric": -14.5, "astronomical": -18.0}
"""Altitude of the Sun in degrees. "photometric" is our own: from here on the sky adds less than one per cent."""


class BelowLimit(ValueError):
    """The altitude is below what the telescope can reach."""


def airmass(altitude: float) -> float:
    """The airmass at an altitude in degrees, after Pickering (2002).

    Good to 0.1 per cent above 10 degrees, where the plain secant is already wrong by more than two.

    Raises:
        BelowLimit: the altitude is below LOWEST_ALTITUDE. The limit is mechanical, so that no argument
            switches it off; use `airmass_anywhere` for other telescopes.
    """
    if altitude < LOWEST_ALTITUDE:
        raise BelowLimit(f"altitude {altitude:.1f} is below the limit of {LOWEST_ALTITUDE:.1f} degrees")
    return airmass_anywhere(altitude)


def airmass_anywhere(altitude: float) -> float:
    """The airmass at any altitude above the horizon, in degrees; about 38.7 at the horizon itself."""
    if not 0.0 <= altitude <= 90.0:
        raise ValueError(f"altitude must lie between 0 and 90 degrees, got {altitude}")
    return 1.0 / math.sin(math.radians(altitude + 244.0 / (165.0 + 47.0 * altitude**1.1)))


def extinction(altitude: float, band: str) -> float:
    """Magnitudes lost in the air at an altitude in degrees, rounded to 0.01.

    After a Saharan dust event add 0.09 in every band: dust is grey. The Dust flag of the night log says when.
    """
    return round(EXTINCTION[band] * airmass(altitude), 2)


def is_dark(sun_altitude: float, kind: str = "photometric") -> bool:
    """Whether the Sun is low enough for a kind of work. Public evenings begin at "nautical"."""
    return sun_altitude <= TWILIGHT[kind]


def focus_offset(tube_temperature: float, reference: float = 8.0) -> int:
    """Micrometres by which the secondary mirror moves for a tube temperature in degrees Celsius.

    The steel tube shrinks by 31 micrometres per degree; the sign is chosen so that a colder tube gives a positive
    offset, which moves the mirror away from the primary.
    """
    return round(-31.0 * (tube_temperature - reference))
