/**
 * A small picture of ink on paper, or of weights. Weights below zero are orange, and weights above
 * zero are blue.
 */
import { computed } from '@preact/signals';
import { useEffect, useRef } from 'preact/hooks';
import { theme } from '../browser/theme.ts';

interface Palette {
  /** The red, green and blue parts of the colour of ink. */
  ink: readonly number[];
  below: readonly number[];
  above: readonly number[];
}

/** The colours of the style sheet. They are read once for all pictures. */
const palette = computed<Palette>(() => {
  // Reads the colours again when the theme changes.
  void theme.value;
  const style = getComputedStyle(document.documentElement);
  const colour = (name: string): number[] => style.getPropertyValue(name).match(/\d+/g)!.slice(0, 3).map(Number);
  return { ink: colour('--ink'), below: colour('--below'), above: colour('--above') };
});

interface Props {
  /**
   * The pixels, row by row. Unsigned bytes are ink, from 0 to 255. Signed bytes are weights, from
   * -127 to 127.
   */
  pixels: Uint8Array | Int8Array;
  /** Pixels per side. */
  side: number;
}

/** The picture is hidden from screen readers, because the text around it describes it. */
export function Picture({ pixels, side }: Props) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const colours = palette.value;
  useEffect(() => {
    if (canvas.current !== null) paint(canvas.current, pixels, side, colours);
  }, [pixels, side, colours]);
  return <canvas ref={canvas} class="picture" width={side} height={side} aria-hidden="true" />;
}

/** The absolute value of a pixel is its opacity, so a pixel with the value zero shows the paper. */
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
