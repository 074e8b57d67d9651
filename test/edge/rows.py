"""`tenon compile --target c` by rows: the bytes are those of whole tensors, arenas are as small as the table says, an input comes row by row, budgets are kept or
refused, and the self-test names the layer whose row lies at a wrong place.
"""

import os
import pathlib
import re
import subprocess
import sys
import unittest

import numpy as np
import onnx

sys.path.insert(0, str(pathlib.Path(os.environ["TENON_SOURCE_DIR"]) / "test/e2e"))
import board
import nets
from tool import ToolTest

RANDOM_NETS = 5
RUN_NETS = 1
ARENAS = {  # whole tensors, by rows, with the input by rows; of the nets with pictures, channels last
    "kws": (nets.keyword_spotting, 16000, 3948, 3580),
    "ic": (nets.image_classification, 49152, 10752, 9156),
    "vww": (nets.visual_wake_words, 55296, 28032, 10276),
    "ad": (nets.anomaly_detection, 768, 768, 772),
    "sww": (nets.streaming_wake_word, 6656, 3760, 3716),
    "mobilenet": (lambda: nets.mobilenet(0.35, 64), 61440, 13824, 8964),
}
BOUNDS = {"kws": 3886, "ic": 10688, "vww": 28032, "ad": 768, "sww": 3712}  # bytes of rows that are live at once, at the least

PUSH = """
#include "{name}.h"
#include <stdio.h>
static const int8_t inputs[{count}][{bytes}] = {{{values}}};
static struct {{ uint32_t before[4]; uint32_t arena[({capital}_ARENA_BYTES + 3) / 4]; uint32_t after[4]; }} memory;
int main(void) {{
  const int8_t *bytes = (const int8_t *)memory.arena;
  {name}_begin(memory.arena);
  for (int i = 0; i < {count}; ++i) {{
    for (int row = 0; row < {capital}_INPUT_ROWS; ++row) {{
      int done = {name}_push_row(memory.arena, inputs[i] + row * {capital}_INPUT_ROW_BYTES);
      if (done != (row == {capital}_INPUT_ROWS - 1)) return 97;
    }}
    for (int k = 0; k < {capital}_OUTPUT_BYTES; ++k) printf("%02x", bytes[{capital}_OUTPUT_OFFSET + k] & 255);
    printf("\\n");
  }}
  for (int k = 0; k < 4; ++k) if (memory.before[k] || memory.after[k]) return 98;
  int layer = 0;
  return {name}_selftest(memory.arena, &layer);
}}
"""


class RowsTest(ToolTest):
    def compiled(self, model, name, *flags):
        """The folder and the report of a model."""
        path = self.folder / f"{model}.onnx"
        return self.folder / name, self.json("compile", path.name, "--target", "c", "--name", name, "-o", name, *flags)

    def saved(self, name, model):
        onnx.save(model, self.folder / f"{name}.onnx")
        return model


class Rows(RowsTest):
    def test_random_nets_have_the_bytes_of_whole_tensors(self):
        ran = 0
        for seed in range(RANDOM_NETS):
            model = self.saved("net", nets.random_net(seed) if seed % 4 == 0 else nets.random_picture_net(seed))
            folder, whole = self.compiled("net", f"whole{seed}", "--layout", "nhwc")
            by_rows, rows = self.compiled("net", f"rows{seed}", "--layout", "nhwc", "--rows")
            self.assertLessEqual(rows["arena_bytes"], whole["arena_bytes"])
            hashes = [[layer.get("hash") for layer in report["layers"]] for report in (whole, rows)]
            self.assertEqual(*hashes, f"seed {seed}")
            if rows["row_bytes"] > 0 and ran < RUN_NETS:
                ran += 1
                inputs = list(np.random.default_rng(seed).integers(-128, 128, (2, whole["inputs"][0]["bytes"])).astype(np.int8))
                expected = board.run_host(folder, f"whole{seed}", inputs)
                got = board.run_checked(by_rows, f"rows{seed}", inputs)
                self.assertEqual((0, 0), (expected[0], got[0]), got[2])
                np.testing.assert_array_equal(expected[1], got[1], f"seed {seed}")
        self.assertEqual(RUN_NETS, ran)

    def test_arenas(self):
        for name, (make, *expected) in ARENAS.items():
            self.saved(name, make())
            report = self.json("check", f"{name}.onnx", "--target", "c", "--layout", "nhwc")
            choices = {choice["flags"]: choice["arena_bytes"] for choice in report["choices"]}
            rows = choices.get("--rows", report["arena_bytes"])
            found = [report["arena_bytes"], rows, choices.get("--input-rows", expected[2])]
            self.assertEqual(expected, found, name)
            self.assertLessEqual(rows, 1.03 * BOUNDS.get(name, rows), name)

    def test_input_by_rows(self):
        model = self.saved("kws", nets.keyword_spotting())
        folder, _ = self.compiled("kws", "kws")
        pushed, _ = self.compiled("kws", "pushed", "--input-rows")
        shape = [dim.dim_value for dim in model.graph.input[0].type.tensor_type.shape.dim]
        inputs = list(np.random.default_rng(5).integers(-128, 128, (2, *shape)).astype(np.int8))
        values = ",\n".join("{" + ",".join(map(str, row.ravel())) + "}" for row in inputs)
        program = pushed / "push.c"
        program.write_text(PUSH.format(name="pushed", capital="PUSHED", count=len(inputs), bytes=inputs[0].size, values=values))
        flags = ["-O0", "-fsanitize=undefined,address", "-fno-sanitize-recover=all"] if board.CLANG else ["-O1"]
        subprocess.run([board.CLANG or board.GCC, *flags, *board.STRICT, "-o", pushed / "push", program, *board.sources(pushed, "pushed")], check=True)
        code, outputs, said = board.outcome([pushed / "push"])
        self.assertEqual(0, code, said)
        np.testing.assert_array_equal(board.run_host(folder, "kws", inputs)[1], outputs)

    def test_self_test_names_the_layer_of_a_wrong_row(self):
        self.saved("kws", nets.keyword_spotting())
        folder, report = self.compiled("kws", "kws", "--rows")
        code, weights = (folder / "kws.c").read_text(), folder / "kws_weights.c"
        text = weights.read_text()
        tables = re.findall(r"kws_places_(\d+)\[\d+\] = {\s*(?:\d+, ?\s*){7}(\d+)", text)
        self.assertGreater(len(tables), 5)
        for tensor, number in tables[1:5:3]:
            layer = int(re.findall(rf"case (\d+):[^;]*kws_places_{tensor}\[row\]\);", code)[0])
            place = re.search(rf"kws_places_{tensor}\[\d+\] = {{\s*(?:\d+, ?\s*){{7}}(\d+)", text)
            wrong = (int(number) + 16) % (report["arena_bytes"] // 4 - 80)
            weights.write_text(text[: place.start(1)] + str(wrong) + text[place.end(1) :])
            subprocess.run(["make", "-s", "-C", folder, "kws_selftest", f"CC={board.GCC}", "CFLAGS=-std=c99 -O1"], check=True)
            done = subprocess.run([folder / "kws_selftest"], capture_output=True, text=True)
            self.assertEqual((1, f"kws: layer {layer} ({report['layers'][layer]['node']}) differs\n"), (done.returncode, done.stdout))

    def test_page(self):
        """The commands of docs/guides/edge-memory.md print what it shows."""
        self.saved("kws", nets.keyword_spotting())
        page = (pathlib.Path(os.environ["TENON_SOURCE_DIR"]) / "docs/guides/edge-memory.md").read_text()
        blocks = re.findall(r"```sh\ntenon ([^\n]*)\n```\n\n```text\n(.*?)```", page, re.S)
        self.assertEqual(4, len(blocks))
        for command, shown in blocks:
            done = self.call(*command.split())
            printed = [line.rstrip() for line in (done.stdout + done.stderr).splitlines()]
            self.assertEqual([], [line for line in shown.splitlines() if line not in (*printed, "...")], printed)

    def test_reports_that_are_none(self):
        (self.folder / "other.json").write_text('{"schema": "tenon.other/1"}')
        for path in ("other.json", "."):
            self.refuse(2, "TN0105", "explain", "memory", path)

    def test_budgets(self):
        self.saved("vww", nets.visual_wake_words())
        _, report = self.compiled("vww", "whole", "--ram", "54KiB")
        self.assertEqual((55296, 0), (report["arena_bytes"], report["row_bytes"]))
        _, report = self.compiled("vww", "rows", "--ram", "28032", "--layout", "nhwc")
        self.assertEqual(28032, report["arena_bytes"])
        before = sorted(self.folder.iterdir())
        refused = lambda *flags: self.refuse(6, "TN0851", "compile", "vww.onnx", "--target", "c", *flags).stderr
        said = refused("--ram", "40000")
        self.assertIn("55296 bytes, 15296 more than --ram", said)
        self.assertIn("most is live at Conv_", said)
        self.assertIn("with --layout nhwc --rows the arena has 28032 bytes, which fits", said)
        self.assertIn("with --input-rows the arena has 10276 bytes, which fits", refused("--ram", "12KiB", "--layout", "nhwc"))
        self.assertIn("with --input-rows it has 10276 bytes, and rows make it no smaller", refused("--ram", "8KiB", "--layout", "nhwc"))
        self.assertIn("are tables of rows, which a larger --ram saves", refused("--ram", "30000", "--layout", "nhwc", "--flash", "222KiB"))
        self.assertIn("--layout nhwc", self.refuse(2, "TN0105", "compile", "vww.onnx", "--target", "c", "--input-rows").stderr)
        self.refuse(2, "TN0105", "check", "vww.onnx", "--rows")
        self.assertEqual(before, sorted(self.folder.iterdir()))


@unittest.skipIf(board.M4_MISSING, board.M4_MISSING)
class Board(RowsTest):
    def test_rows_on_m4(self):
        self.saved("sww", nets.streaming_wake_word())
        inputs = list(np.random.default_rng(6).integers(-128, 128, (2, 30, 40)).astype(np.int8))
        folder, _ = self.compiled("sww", "whole", "--layout", "nhwc")
        rows, _ = self.compiled("sww", "rows", "--layout", "nhwc", "--rows")
        code, outputs, said = board.run_m4(rows, "rows", inputs)
        self.assertEqual(0, code, said)
        np.testing.assert_array_equal(board.run_host(folder, "whole", inputs)[1], outputs)


if __name__ == "__main__":
    unittest.main()
