/**
 * A canvas for drawing with a pointer, or with keys that move a pen. It can show a held-out image
 * instead of a drawing.
 */
import { clamp } from '../../util/clamp.ts';
import { useSignal } from '@preact/signals';
import { useEffect, useRef } from 'preact/hooks';
import { BUILT_IN_IMAGE_SIDE, type LabelledImage } from '../../spec/inspection.ts';
import { useElementSize } from '../components/useElementSize.ts';
import { theme } from '../browser/theme.ts';
import { uiMessages } from '../locales/index.ts';
import { beginStroke, extendLatestStroke, type Drawing } from './drawing.ts';
import { Picture } from './Picture.tsx';

interface Props {
  drawing: Drawing;
  /** The image that is shown until the user draws a stroke. */
  image: LabelledImage | null;
  ondraw: (change: (drawing: Drawing) => Drawing) => void;
  onclear: () => void;
}

/** The width of the pen, as a share of the side of the pad. */
const PEN = 1 / 14;
/**
 * The distance that one press of an arrow key moves the pen, as a share of the side of the pad. It
 * is small enough to draw a 3, and large enough for fast movement if the key is held down.
 */
const KEY_STEP = 1 / 24;

const ARROWS: Readonly<Record<string, readonly [dx: number, dy: number]>> = {
  ArrowLeft: [-KEY_STEP, 0],
  ArrowRight: [KEY_STEP, 0],
  ArrowUp: [0, -KEY_STEP],
  ArrowDown: [0, KEY_STEP],
};

/** The position of the pen when keys move it. */
interface Pen {
  x: number;
  y: number;
  isDown: boolean;
}

export function DrawingPad({ drawing, image, ondraw, onclear }: Props) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const { width } = useElementSize(canvas);
  const pen = useSignal<Pen | null>(null);
  const labels = uiMessages.value.inspection;
  const colours = theme.value;
  const mark = pen.value;
  useEffect(() => {
    if (canvas.current !== null && width > 0) paint(canvas.current, width, drawing, mark);
  }, [width, drawing, mark, colours]);

  const placeOf = (event: PointerEvent): [x: number, y: number] => {
    const box = canvas.current!.getBoundingClientRect();
    return [(event.clientX - box.left) / box.width, (event.clientY - box.top) / box.height];
  };
  const ondown = (event: PointerEvent): void => {
    if (event.button !== 0) return;
    canvas.current!.setPointerCapture(event.pointerId);
    pen.value = null;
    const place = placeOf(event);
    ondraw((so) => beginStroke(so, ...place));
  };
  const onmove = (event: PointerEvent): void => {
    if (!canvas.current!.hasPointerCapture(event.pointerId)) return;
    // A fast pointer has several positions between two frames.
    const all = event.getCoalescedEvents();
    const places = (all.length > 0 ? all : [event]).map(placeOf);
    ondraw((so) => places.reduce((drawn, place) => extendLatestStroke(drawn, ...place), so));
  };
  const onkey = (event: KeyboardEvent): void => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const { x, y, isDown } = pen.value ?? { x: 0.5, y: 0.5, isDown: false };
    const arrow = ARROWS[event.key];
    if (arrow !== undefined) {
      const moved = { x: clamp(x + arrow[0], 0, 1), y: clamp(y + arrow[1], 0, 1), isDown };
      pen.value = moved;
      if (isDown) ondraw((so) => extendLatestStroke(so, moved.x, moved.y));
    } else if (event.key === ' ') {
      pen.value = { x, y, isDown: !isDown };
      if (!isDown) ondraw((so) => beginStroke(so, x, y));
    } else if (event.key === 'Delete' || event.key === 'Backspace') {
      pen.value = { x, y, isDown: false };
      onclear();
    } else return;
    event.preventDefault();
    // The player of the ring uses the same keys and must not receive them.
    event.stopPropagation();
  };
  const label = image === null ? labels.pad(drawing.length) : labels.padImage(image.label);
  return (
    <div class="pad">
      {image !== null && <Picture pixels={image.pixels} side={BUILT_IN_IMAGE_SIDE} />}
      <canvas
        ref={canvas}
        tabIndex={0}
        role="application"
        aria-label={label}
        onPointerDown={ondown}
        onPointerMove={onmove}
        onKeyDown={onkey}
        onBlur={() => (pen.value = null)}
      />
    </div>
  );
}

function paint(canvas: HTMLCanvasElement, width: number, drawing: Drawing, pen: Pen | null): void {
  const context = canvas.getContext('2d');
  if (context === null) return;
  const side = Math.round(width * devicePixelRatio);
  canvas.width = side;
  canvas.height = side;
  context.scale(side, side);
  const style = getComputedStyle(canvas);
  context.strokeStyle = style.getPropertyValue('--ink');
  context.lineWidth = PEN;
  context.lineCap = 'round';
  context.lineJoin = 'round';
  for (const stroke of drawing) {
    context.beginPath();
    context.moveTo(stroke[0]!, stroke[1]!);
    for (let i = 0; i < stroke.length; i += 2) context.lineTo(stroke[i]!, stroke[i + 1]!);
    // A tap has a single point. A canvas draws no line without length.
    if (stroke.length === 2) context.arc(stroke[0]!, stroke[1]!, PEN / 1000, 0, 2 * Math.PI);
    context.stroke();
  }
  if (pen === null) return;
  context.beginPath();
  context.arc(pen.x, pen.y, PEN * 0.75, 0, 2 * Math.PI);
  context.strokeStyle = style.getPropertyValue('--accent');
  context.fillStyle = context.strokeStyle;
  context.lineWidth = PEN / 6;
  if (pen.isDown) context.fill();
  else context.stroke();
}
