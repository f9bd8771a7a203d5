"""Random expressions over the whole dialect, random devices, and the settings a selector is compiled under.

Expressions are grown from templates by kind of value, so most of them compile; now and then a part of the wrong kind is put in,
so that type errors and run-time errors are compared as well. `{kind}` in a template is a part to grow; `{bool|x:int}` is one in
which a variable `x` of kind int may be used.
"""

from __future__ import annotations

import re
from typing import Any

from tests.allocator.problems import Choices

__all__ = ["choose_case", "choose_derived_case", "choose_expression"]

_DOMAIN = "gpu.example.com"
_ATTRIBUTES = f'device.attributes["{_DOMAIN}"]'
_CAPACITY = f'device.capacity["{_DOMAIN}"]'

LEAVES: dict[str, list[str]] = {
    "bool": ["true", "false", "device.allowMultipleAllocations", f"{_ATTRIBUTES}.ready", f"has({_ATTRIBUTES}.model)"],
    "int": ["0", "1", "-1", "2", "7", "40", "9223372036854775807", "-9223372036854775808", "0x1F"],
    "uint": ["0u", "1u", "7u", "18446744073709551615u"],
    "double": ["0.0", "1.0", "-1.5", "2.5", "1e10", "1e300", "0.1", "double('NaN')", "double('inf')", "-0.0"],
    "string": [
        "''",
        "'a'",
        "'a100'",
        "'A100-40GB'",
        "'é€𝄞'",
        "'1'",
        "'1.5'",
        "'b,c,,d'",
        "'10.0.0.1'",
        "device.driver",
        r"'x\ty'",
    ],
    "bytes": ["b''", "b'abc'", r"b'\xff\x00'", "b'é'"],
    "ints": ["[]", "[1]", "[1, 2, 3]", "[3, 1, 2, 1]", "[0, -1]"],
    "strings": ["[]", "['a']", "['b', 'a', 'b']", "['x', 'é']"],
    "map": ["{}", "{'a': 1}", "{'b': 2}"],
    "duration": ["duration('0s')", "duration('1h30m')", "duration('-1.5s')", "duration('1ns')", "duration('100ms')"],
    "timestamp": [
        "timestamp('2024-02-29T12:34:56.789Z')",
        "timestamp('1969-12-31T23:59:59.5Z')",
        "timestamp('2023-07-16T01:00:00+02:30')",
        "timestamp(0)",
        "timestamp('9999-12-31T23:59:59Z')",
    ],
    "optional": ["optional.none()", "optional.of(1)", "{'a': 1}.?a", "{'a': 1}.?b", "[1, 2][?1]", "[][?0]"],
    "quantity": [
        "quantity('0')",
        "quantity('40Gi')",
        "quantity('1500m')",
        "quantity('1e3')",
        "quantity('-1')",
        f"{_CAPACITY}.memory",
    ],
    "semver": ["semver('1.0.0')", "semver('2.1.3-rc.1+b')", "semver('v1.2', true)", f"{_ATTRIBUTES}.driverVersion"],
    "ip": ["ip('10.0.0.1')", "ip('::1')", "ip('fe80::1')", "ip('2001:DB8::')"],
    "cidr": ["cidr('10.0.0.0/8')", "cidr('10.1.2.3/16')", "cidr('2001:db8::/32')", "cidr('0.0.0.0/0')"],
    "url": ["url('https://u@example.com:8080/a%20b?x=1&x=2#f')", "url('/only/path?q')", "url('HTTP://[::1]/')"],
    "dyn": [
        *(
            f"{_ATTRIBUTES}.{name}"
            for name in ("index", "model", "ready", "driverVersion", "numas", "links", "missing")
        ),
        'device.attributes["other.example.com"].zone',
        "dyn(1)",
        "dyn('a')",
        "dyn(1.0)",
        "dyn(1u)",
        "dyn([1, 2])",
        "dyn(null)",
        "dyn({'a': 1})",
        "dyn(true)",
    ],
    "pattern": ["'a+'", "'^[A-Z]'", "'(?i)a100'", "'[0-9]+'", "''", r"'\\d'", "'x*'", "'a|b'", "'(a)(b)?'"],
    "zone": ["'UTC'", "''", "'+02:00'", "'-05:30'", "'Nowhere'"],
}

TEMPLATES: dict[str, list[str]] = {
    "bool": [
        "{bool} && {bool}",
        "{bool} || {bool}",
        "!{bool}",
        "({bool} ? {bool} : {bool})",
        "{int} < {int}",
        "{int} <= {int}",
        "{double} > {double}",
        "{int} >= {double}",
        "{uint} < {int}",
        "{double} == {double}",
        "{int} == {int}",
        "{string} == {string}",
        "{string} < {string}",
        "{bytes} == {bytes}",
        "{bytes} < {bytes}",
        "{ints} == {ints}",
        "{map} == {map}",
        "{strings} != {strings}",
        "{duration} < {duration}",
        "{timestamp} >= {timestamp}",
        "{duration} == {duration}",
        "{optional} == {optional}",
        "{dyn} == {dyn}",
        "{dyn} != {dyn}",
        "{dyn} < {dyn}",
        "{dyn} >= {int}",
        "{dyn} == {string}",
        "{dyn} == {double}",
        "{int} in {ints}",
        "{string} in {strings}",
        "{string} in {map}",
        "{dyn} in {ints}",
        "{dyn} in {dyn}",
        "{string} in device.attributes",
        "{string} in " + _ATTRIBUTES,
        "has({map}.a)",
        "has({dyn}.a)",
        "{optional}.hasValue()",
        "{string}.contains({string})",
        "{string}.startsWith({string})",
        "{string}.endsWith({string})",
        "{string}.matches({pattern})",
        "matches({string}, {pattern})",
        "{dyn}.matches({pattern})",
        "{dyn}.startsWith({string})",
        "{ints}.all(x, {bool|x:int})",
        "{ints}.exists(x, {bool|x:int})",
        "{ints}.exists_one(x, {bool|x:int})",
        "{strings}.all(s, {bool|s:string})",
        "{strings}.exists(s, {bool|s:string})",
        "{map}.all(k, {bool|k:string})",
        "{ints}.all(i, v, {bool|i:int,v:int})",
        "{map}.exists(k, v, {bool|k:string,v:int})",
        "{ints}.existsOne(i, v, {bool|i:int,v:int})",
        "{dyn}.exists(d, {bool|d:dyn})",
        "{dyn}.all(d, {bool|d:dyn})",
        _ATTRIBUTES + ".all(k, {bool|k:string})",
        "device.attributes.exists(d, {bool|d:string})",
        _ATTRIBUTES + ".exists(k, v, {bool|k:string,v:dyn})",
        "cel.bind(b, {bool}, {bool|b:bool})",
        "cel.bind(n, {int}, {bool|n:int})",
        "cel.bind(m, " + _ATTRIBUTES + ", has(m.index) && {bool})",
        "{quantity} == {quantity}",
        "{quantity}.isGreaterThan({quantity})",
        "{quantity}.isLessThan({quantity})",
        "{quantity}.isInteger()",
        "isQuantity({string})",
        "{semver}.isGreaterThan({semver})",
        "{semver}.isLessThan({semver})",
        "{semver} == {semver}",
        "isSemver({string})",
        "isSemver({string}, {bool})",
        "{dyn} == {semver}",
        "{dyn}.isGreaterThan({semver})",
        "{dyn}.includes({int})",
        "{dyn}.includes({string})",
        "{ints}.includes({dyn})",
        "sets.contains({ints}, {ints})",
        "sets.equivalent({ints}, {ints})",
        "sets.intersects({strings}, {strings})",
        "{ints}.isSorted()",
        "{strings}.isSorted()",
        "{dyn}.isSorted()",
        "bool({string})",
        "isIP({string})",
        "isCIDR({string})",
        "ip.isCanonical({string})",
        "{ip}.isLoopback()",
        "{ip}.isGlobalUnicast()",
        "{ip}.isUnspecified()",
        "{ip}.isLinkLocalUnicast()",
        "{ip}.isLinkLocalMulticast()",
        "{ip} == {ip}",
        "{cidr}.containsIP({ip})",
        "{cidr}.containsIP({string})",
        "{cidr}.containsCIDR({cidr})",
        "{cidr} == {cidr}",
        "isURL({string})",
        "{url} == {url}",
        "format.dns1123Label().validate({string}).hasValue()",
        "format.qualifiedName().validate({string}).hasValue()",
        "format.labelValue().validate({string}).hasValue()",
        "format.uuid().validate({string}).hasValue()",
        "format.uri().validate({string}).hasValue()",
        "format.named({string}).hasValue()",
        "type({int}) == int",
        "type({dyn}) == type({dyn})",
        "dyn({bool})",
        "{ints}.map(x, {bool|x:int}).size() > 1",
        _ATTRIBUTES + ".?ready.orValue({bool})",
        "{ints}.exists(x, x in {ints})",
    ],
    "int": [
        "{int} + {int}",
        "{int} - {int}",
        "{int} * {int}",
        "{int} / {int}",
        "{int} % {int}",
        "-{int}",
        "({bool} ? {int} : {int})",
        "size({string})",
        "{strings}.size()",
        "size({bytes})",
        "size({map})",
        "size({dyn})",
        "{ints}.size()",
        "{ints}[{int}]",
        "{map}['a']",
        "{map}.a",
        "{map}[{string}]",
        "{optional}.orValue({int})",
        "{optional}.value()",
        "int({double})",
        "int({uint})",
        "int({string})",
        "int({duration})",
        "int({timestamp})",
        "{ints}.sum()",
        "{ints}.max()",
        "{ints}.min()",
        "{ints}.indexOf({int})",
        "{ints}.lastIndexOf({int})",
        "{string}.indexOf({string})",
        "{string}.indexOf({string}, {int})",
        "{string}.lastIndexOf({string})",
        "{string}.lastIndexOf({string}, {int})",
        "{duration}.getHours()",
        "{duration}.getMinutes()",
        "{duration}.getSeconds()",
        "{duration}.getMilliseconds()",
        "{timestamp}.getFullYear()",
        "{timestamp}.getMonth()",
        "{timestamp}.getDayOfYear()",
        "{timestamp}.getDate()",
        "{timestamp}.getDayOfMonth()",
        "{timestamp}.getDayOfWeek()",
        "{timestamp}.getHours({zone})",
        "{timestamp}.getMinutes({zone})",
        "{timestamp}.getMilliseconds()",
        "{quantity}.compareTo({quantity})",
        "sign({quantity})",
        "{quantity}.asInteger()",
        "{semver}.major()",
        "{semver}.minor()",
        "{semver}.patch()",
        "{semver}.compareTo({semver})",
        "{ip}.family()",
        "{cidr}.prefixLength()",
        "cel.bind(n, {int}, {int|n:int})",
        "int({dyn})",
        "{dyn} + {int}",
        "{dyn}[{int}]",
        "{dyn}.max()",
        "{ints}.first().orValue({int})",
        "{ints}.last().orValue({int})",
        _ATTRIBUTES + ".?index.orValue({int})",
        "{optional}.optMap(o, {int|o:int}).orValue({int})",
        "{optional}.optFlatMap(o, {optional|o:int}).orValue({int})",
    ],
    "uint": [
        "{uint} + {uint}",
        "{uint} - {uint}",
        "{uint} * {uint}",
        "{uint} / {uint}",
        "{uint} % {uint}",
        "uint({int})",
        "uint({double})",
        "uint({string})",
    ],
    "double": [
        "{double} + {double}",
        "{double} - {double}",
        "{double} * {double}",
        "{double} / {double}",
        "-{double}",
        "double({int})",
        "double({uint})",
        "double({string})",
        "{quantity}.asApproximateFloat()",
        "[{double}, {double}].sum()",
        "[{double}, {double}].max()",
    ],
    "string": [
        "{string} + {string}",
        "({bool} ? {string} : {string})",
        "string({int})",
        "string({uint})",
        "string({double})",
        "string({bool})",
        "string({bytes})",
        "string({duration})",
        "string({timestamp})",
        "string({ip})",
        "string({cidr})",
        "string({dyn})",
        "{string}.charAt({int})",
        "{string}.lowerAscii()",
        "{string}.upperAscii()",
        "{string}.trim()",
        "{string}.replace({string}, {string})",
        "{string}.replace({string}, {string}, {int})",
        "{string}.substring({int})",
        "{string}.substring({int}, {int})",
        "{strings}.join()",
        "{strings}.join({string})",
        "strings.quote({string})",
        "{string}.find({pattern})",
        "'%s'.format([{dyn}])",
        "'%d'.format([{int}])",
        "'%s|%s'.format([{ints}, {map}])",
        "'%.2f'.format([{double}])",
        "'%x'.format([{string}])",
        "'%X %o %b'.format([{int}, {int}, {int}])",
        "'%s'.format([{double}])",
        "'%s'.format([[{double}, {double}]])",
        "'%e'.format([{double}])",
        "'%s'.format([{timestamp}])",
        "'%s'.format([[{string}]])",
        "'%s'.format([{bytes}])",
        "{url}.getHost()",
        "{url}.getHostname()",
        "{url}.getPort()",
        "{url}.getScheme()",
        "{url}.getEscapedPath()",
        "{strings}[{int}]",
        "cel.bind(s, {string}, {string|s:string})",
        _ATTRIBUTES + ".?model.orValue({string})",
        "{strings}.max()",
        "{dyn} + {string}",
        "{string}.split({string})[{int}]",
    ],
    "bytes": ["{bytes} + {bytes}", "bytes({string})"],
    "ints": [
        "[{int}]",
        "[{int}, {int}]",
        "[{int}, ?{optional}]",
        "{ints} + {ints}",
        "{ints}.map(x, {int|x:int})",
        "{ints}.filter(x, {bool|x:int})",
        "{ints}.map(x, {bool|x:int}, {int|x:int})",
        "{ints}.transformList(i, v, {int|i:int,v:int})",
        "{ints}.slice({int}, {int})",
        "{ints}.reverse()",
        "{ints}.distinct()",
        "{ints}.sort()",
        "[{ints}, {ints}].flatten()",
        "lists.range({int} % 5)",
        "{ints}.transformList(i, v, {bool|i:int,v:int}, {int|i:int,v:int})",
        "{ints}.sortBy(x, {int|x:int})",
        "{strings}.map(s, {int|s:string})",
        "optional.unwrap([{optional}, {optional}])",
        "({bool} ? {ints} : {ints})",
        "{map}.map(k, {int|k:string})",
    ],
    "strings": [
        "[{string}]",
        "[{string}, {string}]",
        "{strings} + {strings}",
        "{string}.split({string})",
        "{string}.split({string}, {int})",
        "{string}.findAll({pattern})",
        "{string}.findAll({pattern}, {int})",
        "{strings}.map(s, {string|s:string})",
        "{strings}.sort()",
        "{strings}.filter(s, {bool|s:string})",
        "{strings}.distinct()",
        "{strings}.reverse()",
        "{strings}.sortBy(s, {int|s:string})",
        "{ints}.map(x, {string|x:int})",
    ],
    "map": [
        "{{'a': {int}}}",
        "{{{string}: {int}}}",
        "{{?'a': {optional}}}",
        "{map}.transformMap(k, v, {int|k:string,v:int})",
        "{map}.transformMap(k, v, {bool|k:string,v:int}, {int|k:string,v:int})",
        "{strings}.transformMapEntry(i, s, {{s: i}})",
        "({bool} ? {map} : {map})",
    ],
    "duration": [
        "{duration} + {duration}",
        "{duration} - {duration}",
        "-{duration}",
        "{timestamp} - {timestamp}",
        "duration({string})",
        "[{duration}].sum()",
    ],
    "timestamp": [
        "{timestamp} + {duration}",
        "{timestamp} - {duration}",
        "{duration} + {timestamp}",
        "timestamp({int})",
        "timestamp({string})",
    ],
    "optional": [
        "optional.of({int})",
        "optional.ofNonZeroValue({int})",
        "{map}.?a",
        "{map}[?{string}]",
        "{ints}[?{int}]",
        "{optional}.or({optional})",
        "({bool} ? {optional} : {optional})",
        "{optional}.optMap(o, {int|o:int})",
        "{optional}.optFlatMap(o, {optional|o:int})",
        "{ints}.first()",
    ],
    "quantity": [
        "{quantity}.add({quantity})",
        "{quantity}.sub({quantity})",
        "{quantity}.add({int})",
        "{quantity}.sub({int})",
        "quantity({string})",
    ],
    "semver": ["semver({string})", "semver({string}, {bool})", "({bool} ? {semver} : {semver})"],
    "ip": ["ip({string})", "{cidr}.ip()"],
    "cidr": ["cidr({string})", "{cidr}.masked()"],
    "url": ["url({string})"],
    "dyn": [
        "dyn({int})",
        "dyn({string})",
        "dyn({double})",
        "dyn({ints})",
        "dyn({map})",
        "dyn({semver})",
        "dyn({quantity})",
        "dyn({optional})",
        "dyn({duration})",
        "{dyn}.a",
        "{dyn}[0]",
        "{dyn}['a']",
        "{dyn}.?a",
        "({bool} ? {dyn} : {dyn})",
        _ATTRIBUTES + "[{string}]",
        "{dyn} + {dyn}",
        "{dyn}.map(d, {dyn|d:dyn})",
        "{dyn}.filter(d, {bool|d:dyn})",
        "device.attributes[{string}].model",
        "type({dyn})",
    ],
    "pattern": [],
    "zone": [],
}
_PART = re.compile(r"\{([a-z]+)(?:\|([^}]*))?\}")
_KINDS = sorted(set(LEAVES) - {"pattern", "zone"})
#: How often a part is of the wrong kind.
_MISFIT = 0.016


def choose_case(random: Choices) -> dict[str, Any]:
    """A selector to evaluate on a device."""
    return {
        "expression": choose_expression(random),
        "device": _device(random),
        "features": random.choice(_FEATURES),
        "envType": random.choice(("StoredExpressions", "NewExpressions")),
    }


def choose_derived_case(random: Choices) -> dict[str, Any]:
    """A derived attribute to evaluate on a device."""
    case = choose_case(random)
    return {**case, "expression": choose_expression(random, random.choice(_DERIVED)), "derived": True}


_FEATURES = [
    {"EnableConsumableCapacity": sharing, "EnableListTypeAttributes": lists}
    for sharing in (True, False)
    for lists in (True, False)
]
_DERIVED = ("bool", "int", "string", "semver", "ints", "strings", "dyn", "double", "map")


def choose_expression(random: Choices, kind: str = "bool", depth: int = 4) -> str:
    """An expression, of the given kind unless something in it is of the wrong one."""
    return _grow(random, kind, 1 + random.randrange(depth), {})


def _grow(random: Choices, kind: str, depth: int, scope: dict[str, str]) -> str:
    leaves = [name for name, known in scope.items() if known == kind] * 2 + LEAVES[kind]
    if depth <= 0 or not TEMPLATES[kind]:
        return random.choice(leaves)
    template = random.choice(leaves + TEMPLATES[kind])

    def part(match: re.Match[str]) -> str:
        wanted, names = match[1], dict(scope)
        for entry in filter(None, (match[2] or "").split(",")):
            name, known = entry.split(":")
            names[name] = known
        if random.random() < _MISFIT:
            wanted = random.choice(_KINDS)
        grown = _grow(random, wanted, depth - 1, names)
        return grown if re.fullmatch(r"[\w.]+|\[[^\[\]]*\]|[\w.]+\([^()]*\)", grown) else f"({grown})"

    return _PART.sub(part, template.replace("{{", "\0").replace("}}", "\1")).replace("\0", "{").replace("\1", "}")


_VALUES: list[dict[str, Any]] = [
    *({"int": value} for value in (0, 1, 2, 7, 40, 80, -1, 2**63 - 1)),
    *({"string": value} for value in ("", "a", "a100", "A100-40GB", "1.5", "10.0.0.1", "é")),
    *({"bool": value} for value in (False, True)),
    *({"version": value} for value in ("1.0.0", "8.0.0", "1.2.3-rc.1", "535.104.5+x")),
]
_LISTS: list[dict[str, Any]] = [
    *({"ints": value} for value in ([0], [1, 2], [3, 1, 2], [0, 0, 1, 1])),
    *({"strings": value} for value in (["a"], ["x", "b"], ["a", "b", "a"])),
    *({"bools": value} for value in ([True], [False, True])),
    *({"versions": value} for value in (["1.0.0"], ["2.0.0", "1.0.0"])),
]


def _device(random: Choices) -> dict[str, Any]:
    """A device with some of the attributes that expressions ask for, mostly of the type one would expect."""
    usual: dict[str, Any] = {
        "index": {"int": random.choice((0, 1, 3))},
        "model": {"string": random.choice(("a100", "a", "A100-40GB"))},
        "ready": {"bool": random.choice((False, True))},
        "driverVersion": {"version": random.choice(("1.0.0", "535.104.5"))},
        "numas": random.choice(_LISTS),
        "links": random.choice(_LISTS),
        "other.example.com/zone": random.choice(_VALUES),
    }
    attributes = {name: value for name, value in usual.items() if random.random() > 0.1}
    if random.random() < 0.1:
        attributes[random.choice(sorted(usual))] = random.choice(_VALUES)
    if random.random() < 0.5:
        attributes = {name if "/" in name else f"{_DOMAIN}/{name}": value for name, value in attributes.items()}
    memory = {"memory": {"value": random.choice(("40Gi", "80Gi", "1500m", "0"))}}
    return {
        "driver": random.choice((_DOMAIN, _DOMAIN, "other.example.com")),
        "attributes": attributes,
        "capacity": memory if random.random() > 0.1 else {},
        "allowMultipleAllocations": random.choice((False, True)),
    }
