//! What a session remembers besides its runs: overrides, directives, system events (`exec-tool.md` 5 and 10).
