"""Bad npy, npz and picture files."""

import io
import struct
import zipfile
import zlib

import numpy as np
from PIL import Image

from common import Classes, flip, put

npy, npz, image = Classes("npy"), Classes("npz"), Classes("image")
BAD = "TN0106"


def npy_bytes(header="{'descr': '<f4', 'fortran_order': False, 'shape': (4,), }", data=bytes(16), version=1):
    header = header.encode("latin1") + b"\n"
    length = struct.pack("<H" if version == 1 else "<I", len(header))
    return b"\x93NUMPY" + bytes([version, 0]) + length + header + data


def header(descr="'<f4'", order="False", shape="(4,)"):
    return f"{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}, }}"


npy.add("npy empty or short", BAD)(lambda rng, n: npy_bytes()[:n])
npy.add("npy magic", BAD)(lambda rng, n: flip(rng, npy_bytes(), 0, 6))
npy.add("npy version", BAD)(lambda rng, n: npy_bytes(version=[0, 4, 5, 9, 77, 128, 200, 255, 17, 33, 65, 99][n]))
npy.add("npy header length", BAD)(lambda rng, n: put(npy_bytes(), 8, "<H", 200 + rng.randrange(65000)))
npy.add("npy header of 4 GiB", BAD)(lambda rng, n: put(npy_bytes(version=2), 8, "<I", rng.randrange(1 << 17, 1 << 32)))
npy.add("npy key missing", BAD)(
    lambda rng, n: npy_bytes(header().replace(["descr", "fortran_order", "shape"][n % 3], rng.choice("abcd"))))
npy.add("npy other byte order", BAD)(lambda rng, n: npy_bytes(header(f"'>{'ifu'[n % 3]}{[2, 4, 8][n // 3 % 3]}'")))
npy.add("npy objects and strings", BAD)(
    lambda rng, n: npy_bytes(header(["'|O'", "'<U4'", "'|S4'", "[('a', '<f4')]", "'<M8[ns]'", "'<f3'"][n % 6])))
npy.add("npy Fortran order", BAD)(lambda rng, n: npy_bytes(header(order="True", shape=f"({n + 1}, {4 * n})")))
npy.add("npy negative dim", BAD)(lambda rng, n: npy_bytes(header(shape=f"(-{rng.randrange(1, 1 << 62)},)")))
npy.add("npy dims overflow", BAD)(
    lambda rng, n: npy_bytes(header(shape=f"({(1 << 63) - 1 - n}, {rng.randrange(3, 1 << 40)})")))
npy.add("npy dim beyond 64 bits", BAD)(lambda rng, n: npy_bytes(header(shape=f"({10 ** (19 + n)},)")))
npy.add("npy rank", BAD)(lambda rng, n: npy_bytes(header(shape="(" + "1, " * (65 + 50 * n) + ")")))
npy.add("npy less data", BAD)(lambda rng, n: npy_bytes(data=bytes(n)))
npy.add("npy more data", BAD)(lambda rng, n: npy_bytes(data=bytes(17 + n)))
npy.add("npy shape is no tuple", BAD)(
    lambda rng, n: npy_bytes(header(shape=["4", "(4", "[4]", "(4;)", "(a,)", "None", "'4'", "(0x4,)", "(4.0,)", "(4,]",
                                           "{4}", "(4L,)"][n])))
npy.add("npy zeros", BAD)(lambda rng, n: bytes(1 << n))


def archive(names=("x.npy",), compressed=True, content=None):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED if compressed else zipfile.ZIP_STORED) as file:
        for name in names:
            info = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            info.compress_type = file.compression
            file.writestr(info, npy_bytes() if content is None else content)
    return out.getvalue()


def central(content):
    return content.rindex(b"PK\x01\x02")


def end(content):
    return content.rindex(b"PK\x05\x06")


def data(content):
    return 30 + len("x.npy")


npz.add("npz is no archive", BAD)(lambda rng, n: rng.randbytes(1 << n))
npz.add("npz cut off", BAD, 24)(lambda rng, n: archive()[:rng.randrange(len(archive()))])
npz.add("npz directory outside", BAD)(
    lambda rng, n: put(archive(), end(archive()) + 16, "<I", rng.randrange(len(archive()), 1 << 32)))
npz.add("npz more entries than there are", BAD)(
    lambda rng, n: put(archive(), end(archive()) + 10, "<H", rng.randrange(2, 65536)))
npz.add("npz directory entry damaged", BAD)(
    lambda rng, n: flip(rng, archive(), central(archive()), central(archive()) + 4))
npz.add("npz long names in the directory", BAD)(
    lambda rng, n: put(archive(), central(archive()) + 28 + 2 * (n % 3), "<H", rng.randrange(100, 65536)))
npz.add("npz local header elsewhere", BAD)(
    lambda rng, n: put(archive(), central(archive()) + 42, "<I", rng.randrange(1, 1 << 32)))
npz.add("npz encrypted", BAD)(lambda rng, n: put(archive(), central(archive()) + 8, "<H", 1 | rng.randrange(1 << 16)))
npz.add("npz unknown method", BAD)(
    lambda rng, n: put(archive(), central(archive()) + 10, "<H", rng.choice([1, 6, 9, 12, 14, 93, 95, 98]) + 100 * n))
npz.add("npz packed size beyond the file", BAD)(
    lambda rng, n: put(archive(), central(archive()) + 20, "<I", rng.randrange(1000, 1 << 32)))
npz.add("npz bomb by its directory", BAD)(
    lambda rng, n: put(archive(), central(archive()) + 24, "<I", rng.randrange(1 << 20, 1 << 32)))
npz.add("npz unpacks to less or more", BAD)(
    lambda rng, n: put(archive(), central(archive()) + 24, "<I", rng.choice([0, 1, 20, 80, 90, 95, 100, 200, 1000])))
npz.add("npz checksum", BAD)(lambda rng, n: flip(rng, archive(), central(archive()) + 16, central(archive()) + 20))
npz.add("npz packed data damaged", BAD, 24)(
    lambda rng, n: flip(rng, archive(compressed=n % 2 == 0), data(archive()), data(archive()) + 20))
npz.add("npz entry is no array", BAD)(lambda rng, n: archive(content=rng.randbytes(1 << n), compressed=n % 2 == 0))


@npz.add("npz duplicate names", BAD)
def _(rng, n):
    two = archive(["x.npy", "y.npy"], n % 2 == 0)
    return two.replace(b"y.npy", b"x.npy")


npz.add("npz is for another model", "TN0601")(
    lambda rng, n: archive([["y.npy", "../x.npy", "/x.npy", "x", "X.npy", "x.npy.npy", "a/x.npy", "x.NPY", " x.npy",
                             ".npy", "x..npy", "x/.npy"][n]][:1] if n != 3 else ["z"]))
npz.add("npz bomb that is right", "TN0601", 4)(
    lambda rng, n: archive(content=npy_bytes(header("'|u1'", shape=f"({(16 << 20) << n},)"), bytes((16 << 20) << n))))


@npz.add("npz zip64 fields", BAD)
def _(rng, n):
    content = archive()
    at = central(content)
    full = put(content, at + 20 + 4 * (n % 2), "<I", 0xFFFFFFFF)
    extra = struct.pack("<HHQ", 1, 8, rng.randrange(1 << 20, 1 << 64))
    full = put(full, at + 30, "<H", len(extra))
    return full[:at + 51] + extra + full[at + 51:]


@npz.add("npz zip64 end", BAD)
def _(rng, n):
    content = archive()
    locator = struct.pack("<IIQI", 0x07064B50, 0, rng.randrange(1 << (5 * n + 1)), 1)
    return content[:end(content)] + locator + content[end(content):]


def png(width=8, height=8, mode="RGB"):
    out = io.BytesIO()
    pixels = np.arange(width * height * 3, dtype=np.uint8).reshape(height, width, 3)
    Image.fromarray(pixels).convert(mode).save(out, "PNG")
    return out.getvalue()


def chunk(name, content):
    return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))


def made_png(width, height, depth=8, color=2, packing=0, filtering=0, interlace=0, body=None, before=b""):
    head = struct.pack(">IIBBBBB", width, height, depth, color, packing, filtering, interlace)
    body = zlib.compress(bytes(1000)) if body is None else body
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + before + chunk(b"IDAT", body) + chunk(b"IEND", b"")


image.add("picture empty or short", BAD)(lambda rng, n: png()[:n * 2])
image.add("picture cut off", BAD, 24)(lambda rng, n: png()[:rng.randrange(24, len(png()) - 1)])
image.add("picture is something else", BAD)(lambda rng, n: rng.randbytes(20 << n))
image.add("png signature", BAD)(lambda rng, n: flip(rng, png(), 0, 8))
image.add("png without pixels", BAD)(lambda rng, n: made_png([0, 5][n % 2], [0, 0, 7][n % 3]) if n % 6 in (0, 1, 2, 3)
                                    else made_png(0, n))
image.add("png too large to be one", BAD)(
    lambda rng, n: made_png(rng.randrange(5000, 1 << (14 + n)), rng.randrange(5000, 1 << (14 + n))))
image.add("png bomb", BAD, 4)(
    lambda rng, n: made_png(16000, 16000 - n, body=zlib.compress(bytes(1 << 24), 9)))
image.add("png color type", BAD)(lambda rng, n: made_png(8, 8, color=[1, 5, 7, 8, 9, 17, 33, 65, 99, 128, 200, 255][n]))
image.add("png bit depth", BAD)(lambda rng, n: made_png(8, 8, depth=[0, 3, 5, 6, 7, 9, 15, 17, 32, 64, 128, 255][n]))
image.add("png packing", BAD)(lambda rng, n: made_png(8, 8, packing=1 + n))
image.add("png filtering", BAD)(lambda rng, n: made_png(8, 8, filtering=1 + n))
image.add("png interlace", BAD)(lambda rng, n: made_png(8, 8, interlace=2 + n))
image.add("png without its palette", BAD)(lambda rng, n: made_png(8 + n, 8, color=3))
image.add("png palette of a wrong size", BAD)(
    lambda rng, n: made_png(8, 8, color=3, before=chunk(b"PLTE", bytes([4, 5, 800, 1000][n % 4] + (3 * n if n % 4 > 1 else 0)))))
image.add("png pixels damaged", BAD)(lambda rng, n: made_png(8, 8, body=rng.randbytes(50)))
image.add("png fewer pixels", BAD)(lambda rng, n: made_png(8, 8, body=zlib.compress(bytes(10 * n))))
image.add("png row filter", BAD)(lambda rng, n: made_png(8, 8, body=zlib.compress(bytes([5 + n]) * 200)))
image.add("png chunk longer than the file", BAD)(lambda rng, n: put(png(), 33, ">I", rng.randrange(5000, 1 << 32)))
image.add("png unknown critical chunk", BAD)(lambda rng, n: made_png(8, 8, before=chunk(b"ABCD"[:3] + bytes([69 + n]), b"")))
image.add("png checksum", BAD)(lambda rng, n: flip(rng, png(), 41, len(png()) - 20))


def jpeg():
    out = io.BytesIO()
    Image.fromarray(np.arange(16 * 16 * 3, dtype=np.uint8).reshape(16, 16, 3)).save(out, "JPEG")
    return out.getvalue()


image.add("jpeg cut off", BAD)(lambda rng, n: jpeg()[:rng.randrange(2, len(jpeg()) - 2)])
image.add("jpeg marker", BAD)(lambda rng, n: put(jpeg(), 2, ">H", rng.randrange(0xFF00)))
image.add("jpeg frame", BAD)(
    lambda rng, n: put(jpeg(), jpeg().index(b"\xff\xc0") + 4 + [0, 1, 3, 5][n % 4], ">B" if n % 4 == 0 else ">H",
                       [9 + n, 0, 0, 0x0900][n % 4]))
