"""How pages look, whoever serves them: templates, styles, scripts, Markdown and safe headers.

Knows no memory and no hub: `interfaces.http` shows one person's memory with it, `interfaces.hub` a workspace.
"""
