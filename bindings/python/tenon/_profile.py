"""What `Engine.profile` gives: the JSON of `tenon profile`, which notebooks and terminals show as a table."""

from __future__ import annotations

import html
from typing import Any, Dict

_CELL = "text-align:left;vertical-align:top"


class Profile(Dict[str, Any]):
    """The dict of `tenon profile --json` (docs/guides/profile.md). `str` of it and a notebook show the `top` longest operators."""

    top = 5

    def advice_for(self, region: int) -> Dict[str, Any] | None:
        """The first advice (docs/guides/profile.md has their order) of which a region would gain, or None."""
        return next((advice for advice in self["advice"] if region in advice["regions"]), None)

    def _rows(self):
        for group in self["groups"][: self.top]:
            longest = max((self["operators"][index] for index in group["operators"]), key=lambda row: row["time_us"])
            advice = self.advice_for(longest["region"])
            name = group["name"] + (f" ({len(group['operators'])} of them)" if len(group["operators"]) > 1 else "")
            name += " [split by the model]" if group["split_by"] else ""
            limit = f"{group['of_limit']:.0%} of {group['limit']}"
            remedy = f"{advice['command']}  # {advice['speedup']:.2f} x as fast a {advice['of']}, predicted" if advice else ""
            yield name, f"{group['share']:.1%}", limit, f"{group['class']}: {group['cause']}", remedy

    def _head(self) -> str:
        measured, limits = self["measured"], self["limits"]
        head = f"{measured['run_us'] / 1000:.3f} ms a run, {self['level']}, {limits['threads']} threads"
        head += f"; {self['sizes']}" if self["sizes"] else ""
        return head + ("; the machine was disturbed: times are upper bounds" if measured["disturbed"] else "")

    def __str__(self) -> str:
        lines = [self._head()]
        for name, share, limit, cause, remedy in self._rows():
            lines += [f"{share:>7}  {name}", f"         {limit}; {cause}"] + ([f"         try  {remedy}"] if remedy else [])
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        """A table for notebooks."""
        titles = ("operator", "share", "of its limit", "class and cause", "to try")
        head = "".join(f"<th style='{_CELL}'>{title}</th>" for title in titles)
        body = "".join("<tr>" + "".join(f"<td style='{_CELL}'>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in self._rows())
        return f"<p>{html.escape(self._head())}</p><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
