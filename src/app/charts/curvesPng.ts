/**
 * Makes a PNG of the curves on the page, one below the other. Its background has the colour of the
 * paper.
 */

/** Space around the curves, CSS pixels. */
const MARGIN = 16;

/** Resolves with the picture; `null` if the page shows no curves. */
export async function renderCurvesPng(): Promise<Blob | null> {
  const curves = [...document.querySelectorAll<HTMLElement>('.curve')].flatMap((figure) => {
    const chart = figure.querySelector('canvas');
    return chart === null ? [] : [{ chart, caption: figure.querySelector('figcaption')! }];
  });
  if (curves.length === 0) return null;
  const scale = devicePixelRatio;
  const [margin, line] = [MARGIN * scale, 2 * MARGIN * scale];
  const canvas = document.createElement('canvas');
  canvas.width = Math.max(...curves.map(({ chart }) => chart.width)) + 2 * margin;
  canvas.height = curves.reduce((sum, { chart }) => sum + chart.height + line, 2 * margin);
  const context = canvas.getContext('2d')!;
  const style = getComputedStyle(document.documentElement);
  context.fillStyle = style.backgroundColor;
  context.fillRect(0, 0, canvas.width, canvas.height);
  context.fillStyle = style.color;
  context.textBaseline = 'middle';
  let top = margin;
  for (const { chart, caption } of curves) {
    context.font = `${Number.parseFloat(style.fontSize) * scale}px ${style.fontFamily}`;
    context.fillText(wordsOf(caption), margin, top + line / 2);
    context.drawImage(chart, margin, top + line);
    top += line + chart.height;
  }
  return new Promise((resolve) => canvas.toBlob(resolve, 'image/png'));
}

/** Returns the chosen name and the value of a caption, without the names of other metrics. */
function wordsOf(caption: HTMLElement): string {
  const words = [...caption.querySelectorAll('span, button')].filter(
    (one) => one.childElementCount === 0 && one.getAttribute('aria-pressed') !== 'false',
  );
  return words.map(({ textContent }) => textContent.trim()).join('  ');
}
