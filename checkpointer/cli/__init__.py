"""The doors: parse, call one thing, print.

`registry` lists every command; `app` reads the words of a call and loads the one module that answers it. What every
command may use stands in `call` (the workspace, the flags), `output` (the two streams), `phrase` (ages, sizes, counts),
`handle` (points and selectors) and `patch` (git's diff format).
"""
