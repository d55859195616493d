/** Prepares what canvases are painted with. */

/**
 * Gives a canvas the resolution of the screen, and returns its context, which counts CSS pixels.
 * Returns `null` if nothing can be painted yet.
 */
export function contextInCssPixels(
  canvas: HTMLCanvasElement | null,
  width: number,
  height: number,
): CanvasRenderingContext2D | null {
  const context = canvas?.getContext('2d') ?? null;
  if (canvas === null || context === null || width === 0) return null;
  canvas.width = Math.round(width * devicePixelRatio);
  canvas.height = Math.round(height * devicePixelRatio);
  context.setTransform(devicePixelRatio, 0, 0, devicePixelRatio, 0, 0);
  return context;
}

/** Returns a function that reads colours of the style sheet, such as `--ink`, in this theme. */
export function styleColoursOf(element: Element): (name: string) => string {
  const style = getComputedStyle(element);
  return (name) => style.getPropertyValue(name).trim();
}
