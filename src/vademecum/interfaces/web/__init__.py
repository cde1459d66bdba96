"""The look of pages: templates, styles, scripts, Markdown and safe headers.

This package knows no memory and no hub: `interfaces.http` uses it to show a person's memory, and the package
`vademecum_hub` to show a workspace.
"""
