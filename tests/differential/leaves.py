"""What stands alone in a random expression, by kind of value. What has parts is in `grammar`."""

from __future__ import annotations

DOMAIN = "gpu.example.com"
ATTRIBUTES = f'device.attributes["{DOMAIN}"]'
_CAPACITY = f'device.capacity["{DOMAIN}"]'

LEAVES: dict[str, list[str]] = {
    "bool": ["true", "false", "device.allowMultipleAllocations", f"{ATTRIBUTES}.ready", f"has({ATTRIBUTES}.model)"],
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
    "semver": ["semver('1.0.0')", "semver('2.1.3-rc.1+b')", "semver('v1.2', true)", f"{ATTRIBUTES}.driverVersion"],
    "ip": ["ip('10.0.0.1')", "ip('::1')", "ip('fe80::1')", "ip('2001:DB8::')"],
    "cidr": ["cidr('10.0.0.0/8')", "cidr('10.1.2.3/16')", "cidr('2001:db8::/32')", "cidr('0.0.0.0/0')"],
    "url": ["url('https://u@example.com:8080/a%20b?x=1&x=2#f')", "url('/only/path?q')", "url('HTTP://[::1]/')"],
    "dyn": [
        *(f"{ATTRIBUTES}.{name}" for name in ("index", "model", "ready", "driverVersion", "numas", "links", "missing")),
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
