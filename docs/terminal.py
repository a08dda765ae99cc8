"""Draws what a command has printed as a picture of a terminal: text in, SVG out. Standard library only.

How docs/skirmish.svg was made:

cargo build --release --example skirmish
target/release/examples/skirmish --secs 8 | python3 docs/terminal.py \
    'cargo run --release --example skirmish -- --secs 8' > docs/skirmish.svg
"""
import html
import sys

CHAR_WIDTH, LINE_HEIGHT, SIZE, MARGIN, BAR = 7.8, 19, 13, 16, 30
BACKGROUND, TEXT, DIM, PROMPT = "#14161b", "#d7dae0", "#7f8794", "#8fc97a"


def line(row, text, colour):
    y = BAR + MARGIN + row * LINE_HEIGHT + SIZE - 3
    # Each line is given its width, so that it looks alike whichever monospaced font the reader has.
    width = len(text) * CHAR_WIDTH
    return (f'<text x="{MARGIN}" y="{y}" fill="{colour}" textLength="{width:.1f}" '
            f'lengthAdjust="spacingAndGlyphs" xml:space="preserve">{html.escape(text)}</text>')


def picture(command, output):
    rows = [("$ " + command, PROMPT)] + [(text, TEXT) for text in output]
    width = 2 * MARGIN + max(len(text) for text, _ in rows) * CHAR_WIDTH
    height = BAR + 2 * MARGIN + len(rows) * LINE_HEIGHT
    yield (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height}" width="{width:.0f}" '
           f'font-family="ui-monospace, Menlo, Consolas, \'DejaVu Sans Mono\', monospace" font-size="{SIZE}">')
    yield f"<title>{html.escape(command)}</title>"
    yield f'<rect width="100%" height="100%" rx="8" fill="{BACKGROUND}"/>'
    yield "".join(f'<circle cx="{MARGIN + 6 + 18 * dot}" cy="{BAR / 2 + 3}" r="5" fill="{DIM}"/>' for dot in range(3))
    yield from (line(row, text, colour) for row, (text, colour) in enumerate(rows) if text)
    yield "</svg>"


print("\n".join(picture(sys.argv[1], sys.stdin.read().splitlines())))
