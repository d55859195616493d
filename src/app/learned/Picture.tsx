/** A small picture of bytes: ink on paper, or weights from orange over nothing to blue. */
import { useEffect, useRef } from 'preact/hooks';
import { theme } from '../theme.ts';

interface Props {
  /** Row by row. Bytes are ink, 0 .. 255; signed bytes are weights, -127 .. 127. */
  pixels: Uint8Array | Int8Array;
  /** Pixels per side. */
  side: number;
}

/** Says nothing of itself: what is around it does. */
export function Picture({ pixels, side }: Props) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const colours = theme.value;
  useEffect(() => {
    if (canvas.current !== null) paint(canvas.current, pixels, side);
  }, [pixels, side, colours]);
  return <canvas ref={canvas} class="picture" width={side} height={side} aria-hidden="true" />;
}

/** Colours are the style sheet's; how much of one there is at a pixel is its alpha, so that nothing is paper. */
function paint(canvas: HTMLCanvasElement, pixels: Uint8Array | Int8Array, side: number): void {
  const context = canvas.getContext('2d');
  if (context === null) return;
  const style = getComputedStyle(canvas);
  const colour = (name: string): number[] => style.getPropertyValue(name).match(/\d+/g)!.slice(0, 3).map(Number);
  const isInk = pixels instanceof Uint8Array;
  const [full, above, below] = isInk ? [255, colour('--ink'), []] : [127, colour('--above'), colour('--below')];
  const image = context.createImageData(side, side);
  for (const [i, value] of pixels.entries()) {
    const [red, green, blue] = value < 0 ? below : above;
    image.data.set([red!, green!, blue!, (255 * Math.abs(value)) / full], 4 * i);
  }
  context.putImageData(image, 0, 0);
}
