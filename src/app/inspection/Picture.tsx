/** A small picture of bytes: ink on paper, or weights from orange to blue. */
import { computed } from '@preact/signals';
import { useEffect, useRef } from 'preact/hooks';
import { theme } from '../browser/theme.ts';

interface Palette {
  /** Red, green, blue. */
  ink: readonly number[];
  below: readonly number[];
  above: readonly number[];
}

/** Colours of the style sheet, read once for all pictures. */
const palette = computed<Palette>(() => {
  // Another theme has other colours.
  void theme.value;
  const style = getComputedStyle(document.documentElement);
  const colour = (name: string): number[] => style.getPropertyValue(name).match(/\d+/g)!.slice(0, 3).map(Number);
  return { ink: colour('--ink'), below: colour('--below'), above: colour('--above') };
});

interface Props {
  /** Row by row. Unsigned bytes are ink, 0 .. 255; signed bytes are weights, -127 .. 127. */
  pixels: Uint8Array | Int8Array;
  /** Pixels per side. */
  side: number;
}

/** Hidden from screen readers: the content around it describes it. */
export function Picture({ pixels, side }: Props) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const colours = palette.value;
  useEffect(() => {
    if (canvas.current !== null) paint(canvas.current, pixels, side, colours);
  }, [pixels, side, colours]);
  return <canvas ref={canvas} class="picture" width={side} height={side} aria-hidden="true" />;
}

/** The value of a pixel is its alpha, so zero shows the paper. */
function paint(
  canvas: HTMLCanvasElement,
  pixels: Uint8Array | Int8Array,
  side: number,
  { ink, below, above }: Palette,
): void {
  const context = canvas.getContext('2d');
  if (context === null) return;
  const [full, positive] = pixels instanceof Uint8Array ? [255, ink] : [127, above];
  const image = context.createImageData(side, side);
  for (const [i, value] of pixels.entries()) {
    const [red, green, blue] = value < 0 ? below : positive;
    image.data.set([red!, green!, blue!, (255 * Math.abs(value)) / full], 4 * i);
  }
  context.putImageData(image, 0, 0);
}
