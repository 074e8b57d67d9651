"""Bad engine files, made from a good one (docs/reference/engine-format.md)."""

import struct

from common import Classes, flip, put

HEADER, ENTRY = 64, 64
KINDS = {1: "manifest", 2: "plan", 3: "code", 4: "record", 5: "hashes", 6: "weights"}


def classes(good):
    engine, rehashed = Classes("engine"), Classes("engine-rehashed")
    count = struct.unpack_from("<I", good, 12)[0]
    sections = []
    for index in range(count):
        kind, _, offset, size = struct.unpack_from("<IIQQ", good, HEADER + ENTRY * index)
        sections.append((KINDS[kind], offset, size, HEADER + ENTRY * index))
    at = {name: (offset, size, entry) for name, offset, size, entry in sections}

    engine.add("engine empty or one byte", ("TN0501", "TN0502"))(lambda rng, n: good[:n % 2])
    engine.add("engine cut off", "TN0501", 48)(lambda rng, n: good[:rng.randrange(HEADER, len(good))])
    engine.add("engine cut off in its header", "TN0501")(lambda rng, n: good[:rng.randrange(8, HEADER)])
    engine.add("engine magic", "TN0502")(lambda rng, n: flip(rng, good, 0, 8))
    engine.add("engine version", "TN0503")(lambda rng, n: put(good, 8, "<I", rng.randrange(2, 1 << 32)))
    engine.add("engine longer than it says", "TN0504")(lambda rng, n: good + bytes(1 << n))
    engine.add("engine header flipped", ("TN0501", "TN0504", "TN0505", "TN0506"), 24)(
        lambda rng, n: flip(rng, good, 12, HEADER))
    engine.add("engine section table flipped", ("TN0505", "TN0506"), 48)(
        lambda rng, n: flip(rng, good, HEADER, HEADER + ENTRY * count))
    for name, error in (("manifest", "TN0505"), ("plan", "TN0505"), ("code", "TN0505"), ("hashes", "TN0505"),
                        ("record", "TN0520"), ("weights", "TN0516")):
        offset, size, _ = at[name]
        engine.add(f"engine {name} flipped", error, 24)(
            lambda rng, n, offset=offset, size=size: flip(rng, good, offset, offset + size))

    @engine.add("engine space between sections", "TN0506")
    def _(rng, n):
        ends = [(first[1] + first[2], second[1]) for first, second in zip(sections, sections[1:])]
        begin, stop = rng.choice([gap for gap in ends if gap[0] < gap[1]])
        return flip(rng, good, begin, stop)

    rehashed.add("hostile section count", ("TN0506", "TN0501"))(lambda rng, n: put(good, 12, "<I", n % 4))
    for name, place, layout in (("kind", 0, "<I"), ("offset", 8, "<Q"), ("size", 16, "<Q")):
        rehashed.add(f"hostile section {name}", ("TN0501", "TN0504", "TN0506", "TN0507"), 24)(
            lambda rng, n, place=place, layout=layout: put(
                good, HEADER + ENTRY * rng.randrange(count) + place, layout,
                rng.choice([0, 7, rng.randrange(1 << 20), (1 << (8 * struct.calcsize(layout))) - 1 - n])))
    rehashed.add("hostile manifest", "TN0507")(
        lambda rng, n: put(good, at["manifest"][0], f"{at['manifest'][1]}s", rng.randbytes(at["manifest"][1])))
    rehashed.add("hostile plan", "TN0508")(
        lambda rng, n: put(good, at["plan"][0], f"{at['plan'][1]}s", rng.randbytes(at["plan"][1])))
    rehashed.add("hostile code", "TN0515", 24)(
        lambda rng, n: put(good, at["code"][0] + rng.choice([0, 4, 5, 16, 18, 54]), "<B", 200 + n))
    rehashed.add("hostile program headers", "TN0515", 24)(
        lambda rng, n: put(good, at["code"][0] + 64 + 56 + 56 * rng.randrange(3) + rng.choice([8, 16, 32, 40]), "<Q",
                           rng.randrange(1 << 33, 1 << 64)))
    rehashed.add("hostile executable stack", "TN0515", 1)(
        lambda rng, n: put(good, good.index(struct.pack("<II", 0x6474E551, 6), at["code"][0]), "<II", 0x6474E551, 7))
    return [engine, rehashed]
