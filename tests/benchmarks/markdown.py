def rows(text: str) -> list[list[str]]:
    """The cells of all Markdown tables of a text."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines]
