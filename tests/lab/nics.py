# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs inside a guest, from standard input: what ethtool(8) and ip-link(8) say of every NIC, as JSON.

Without an argument: NIC → knob → value, of all that it has. Knobs are `rings.rx`, `mtu` and the like, by the
names of the module nic_ethtool. With `try`: sets every knob to another value with ethtool itself, and puts
all back. Then it prints for every NIC what worked (asked), how all was then (after), what was refused, and
what could not be put back (left).
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys

#: Group → the options of ethtool that show and set it
OPTIONS = {
    "private_flags": ("--show-priv-flags", "--set-priv-flags"),
    "channels": ("-l", "-L"),
    "rings": ("-g", "-G"),
    "coalesce": ("-c", "-C"),
    "pause": ("-a", "-A"),
    "fec": ("--show-fec", "--set-fec"),
    "features": ("-k", "-K"),
}

#: File of sysfs → what ip(8) calls it
LINK = {"tx_queue_len": "txqueuelen", "mtu": "mtu"}

#: What ethtool prints → what it, and the module, take
NAMES = {
    "rings": {"RX": "rx", "RX Mini": "rx-mini", "RX Jumbo": "rx-jumbo", "TX": "tx"},
    "channels": {"RX": "rx", "TX": "tx", "Combined": "combined"},
    "pause": {"Autonegotiate": "autoneg", "RX": "rx", "TX": "tx"},
    "coalesce": {
        "Adaptive RX": "adaptive-rx",
        "Adaptive TX": "adaptive-tx",
        **{f"{way}-frame-{load}": f"{way}-frames-{load}" for way in ("rx", "tx") for load in ("low", "high")},
    },
}

#: Of `ethtool -c` what only newer interfaces of the kernel have than the one that every kernel has
NEWER = ("CQE mode", "tx-aggr")


def run(*words: str) -> tuple[int, str]:
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def nics() -> list[str]:
    """Those with hardware, or what looks like it."""
    return sorted(
        name for name in os.listdir("/sys/class/net") if os.path.exists(f"/sys/class/net/{name}/device")
    )


def lines(nic: str, option: str) -> list[tuple[str, str]]:
    """What stands before and behind the colon of each line; n/a is nothing."""
    status, text = run("ethtool", option, nic)
    if status != 0:
        return []
    # Two values in one line: `Adaptive RX: off  TX: off`
    text = re.sub(r"^(Adaptive|CQE mode) RX: (\S+)\s+TX: ", r"\1 RX: \2\n\1 TX: ", text, flags=re.MULTILINE)
    pairs = [line.partition(":") for line in text.splitlines()[1:]]
    return [(name, value.strip()) for name, _colon, value in pairs if value.strip() not in ("", "n/a")]


def amounts(nic: str, group: str) -> dict[str, str]:
    """Rings and channels, and `max` of each: a device has what it has at most more than none of."""
    found: dict[str, str] = {}
    for name, value in lines(nic, OPTIONS[group][0]):
        field = NAMES[group].get(name)
        if field:
            found[field if f"max {field}" in found else f"max {field}"] = value
    return {name: value for name, value in found.items() if found[f"max {name.split()[-1]}"] != "0"}


def features(nic: str) -> dict[str, str]:
    """By themselves, not those that stand for the indented ones below them. `off [fixed]` stays as it is."""
    pairs = lines(nic, "-k")
    return {
        name.strip(): re.sub(r" \[(requested|not requested).*", "", value)
        for place, (name, value) in enumerate(pairs)
        if name[0] == "\t" or pairs[place + 1 : place + 2] == [] or pairs[place + 1][0][0] != "\t"
    }


def values(nic: str, group: str) -> dict[str, str]:
    if group in ("rings", "channels"):
        return amounts(nic, group)
    if group == "features":
        return features(nic)
    pairs = [pair for pair in lines(nic, OPTIONS[group][0]) if not pair[0].startswith(NEWER)]
    if group == "fec":
        configured = dict(pairs).get("Supported/Configured FEC encodings", "None")
        return {} if configured == "None" else {"": configured.lower()}
    if group == "pause":
        return {NAMES[group][name]: value for name, value in pairs if name in NAMES[group]}
    return {NAMES.get(group, {}).get(name, name).strip(): value for name, value in pairs}


def group_of(nic: str, group: str) -> dict[str, str]:
    """The knobs of one group."""
    if group in LINK:
        with open(f"/sys/class/net/{nic}/{group}") as stream:
            return {group: stream.read().strip()}
    return {f"{group}.{name}".rstrip("."): value for name, value in values(nic, group).items()}


def read(nic: str) -> dict[str, str]:
    """All knobs of a NIC."""
    return {knob: value for group in (*OPTIONS, *LINK) for knob, value in group_of(nic, group).items()}


# -- other values --------------------------------------------------------------------------


def write(nic: str, knob: str, value: str) -> str:
    """What the command says, which is nothing if all is well."""
    group, _dot, field = knob.partition(".")
    if group in LINK:
        return run("ip", "link", "set", "dev", nic, LINK[group], value)[1].strip()
    return run("ethtool", OPTIONS[group][1], nic, field or "encoding", value)[1].strip()


def others(knob: str, now: dict[str, str]) -> list[str]:
    """What to try, best first."""
    group, _dot, field = knob.partition(".")
    value = now[knob]
    if group in ("rings", "channels"):
        most = int(now[f"{group}.max {field}"])
        return [str(number) for number in (most // 2, most // 4, most) if number and str(number) != value]
    if value in ("on", "off"):
        return ["off" if value == "on" else "on"]
    if group == "fec":
        return [word for word in ("rs", "baser", "off", "auto") if word != value]
    numbers = {"mtu": ("1400",), "tx_queue_len": ("500",)}.get(group, ("50", "60", "1", "0"))
    return [number for number in numbers if number != value]


def knobs(now: dict[str, str]) -> list[str]:
    """Those that could be changed, in the order of the module."""
    order = [*OPTIONS, *LINK]
    found = [
        knob
        for knob in reversed(now)  # ethtool shows what stands on other features after these
        # A NIC that adapts ignores the numbers, so that one can have one of the two.
        if not (".max " in knob or "[fixed]" in now[knob] or (".adaptive" in knob and now[knob] == "off"))
    ]

    def place(knob: str) -> tuple[int, bool]:
        # A feature that is switched on may need others, which could not be switched off any more then; and
        # what a NIC has agreed on with the other end is not changed as long as it does that.
        late = now[knob] == "off" if knob.startswith("features.") else knob in ("pause.rx", "pause.tx")
        return order.index(knob.partition(".")[0]), late

    return sorted(found, key=place)


def attempt(nic: str) -> dict[str, object]:
    """Set what can be set, all of it together in the end, and put it back."""
    before, now = read(nic), read(nic)
    asked: dict[str, str] = {}
    refused: dict[str, str] = {}  # what may be no more than a consequence of what is set already
    for knob in knobs(before):
        if now[knob] != before[knob]:
            continue  # another one has taken it along
        for value in others(knob, before):
            write(nic, knob, value)
            then = {**now, **group_of(nic, knob.partition(".")[0])}
            if all(then[name] == text for name, text in {**asked, knob: value}.items()):
                asked, now = {**asked, knob: value}, then
                break
            refused.setdefault(knob, value)
            # Also where nothing has changed: what was asked of a feature, the kernel tries again with every
            # other one, and drivers that fail then take none of them.
            write(nic, knob, now[knob])
            put_back(nic, now)
    after = read(nic)
    put_back(nic, before)
    never = {
        knob: value for knob, value in refused.items() if knob not in asked and not works(nic, knob, value)
    }
    left = different(before, read(nic))
    return {"before": before, "asked": asked, "after": after, "refused": never, "left": left}


def works(nic: str, knob: str, value: str) -> bool:
    """Whether a knob can be set by itself; it is put back."""
    now = read(nic)
    write(nic, knob, value)
    done = read(nic)[knob] == value
    write(nic, knob, now[knob])
    put_back(nic, now)
    return done


def put_back(nic: str, wanted: dict[str, str]) -> None:
    """What stands on others comes last, and so may have to be asked for again."""
    for _pass in range(3):
        found = different(wanted, read(nic))
        if not found:
            return
        for knob in found:
            write(nic, knob, wanted[knob])


def different(wanted: dict[str, str], now: dict[str, str]) -> dict[str, str]:
    return {knob: now.get(knob, "") for knob in wanted if wanted[knob] != now.get(knob)}


print(json.dumps({nic: attempt(nic) if sys.argv[1:] == ["try"] else read(nic) for nic in nics()}))
