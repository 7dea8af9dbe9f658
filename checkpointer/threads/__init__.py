"""Threads of a graph as runs: what a graph saves of a thread is in the log of one run, and the files with it.

Nothing here knows a graph library: states are bytes with a name of their kind. Each thing that is saved is one
`memory_written` event, durable when the call returns. What is deleted is first said to be gone, and then its contents
are taken out of the log.

Several processes may save to one thread: the first owns the run while it lives, the others write under its epoch.
"""
