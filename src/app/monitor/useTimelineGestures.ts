/**
 * Gestures and keys of the timeline. To zoom: the wheel with Ctrl, a pinch, or the keys + and -. To
 * pan: a drag, the wheel with Shift, or Shift with an arrow key. Arrow keys alone move between
 * segments and ranks. Home and End show the first and the last step. Escape shows the newest steps
 * again.
 */
import type { Signal } from '@preact/signals';
import { useEffect, useRef } from 'preact/hooks';
import type { PointedStep } from '../charts/axis.ts';
import {
  adjacentTimelineSegmentOf,
  panTimelineWindow,
  pickSegmentAt,
  rowHalfOfSegmentKind,
  zoomTimelineWindow,
  type PickedSegment,
  type RanksTimeline,
  type TimelineWindow,
} from './timeline.ts';

/** The zoom factor of one press of a key or one notch of the wheel. */
export const ZOOM_STEP_FACTOR = 1.5;
/** One press of a key pans by this share of the window. */
const PAN = 0.2;
/** A pointer picks a segment that is at most this number of pixels away. */
const SLACK = 4;

export interface TimelineGestureOptions {
  timeline: RanksTimeline;
  window: TimelineWindow;
  extent: TimelineWindow;
  picked: Signal<PickedSegment | null>;
  pointed: Signal<PointedStep | null>;
  look: (next: TimelineWindow | null) => void;
  /** Width of the canvas, height above the lanes, and height of a lane, pixels. */
  width: number;
  top: number;
  rowHeight: number;
}

export function useTimelineGestures(
  canvas: { readonly current: HTMLCanvasElement | null },
  options: TimelineGestureOptions,
) {
  const now = useRef(options);
  now.current = options;
  /** The x positions of all pressed pointers, by id. */
  const down = useRef(new Map<number, number>());
  const timeAt = (x: number): number => {
    const { window, width } = now.current;
    return window.from + (x / width) * (window.to - window.from);
  };
  useEffect(() => {
    const element = canvas.current;
    if (element === null) return undefined;
    const onwheel = (event: WheelEvent): void => {
      const { window, extent, width, look } = now.current;
      const isFocused = document.activeElement === element;
      // Without Ctrl, the wheel zooms only if the timeline has the focus. Otherwise, the wheel
      // scrolls the page.
      const zooms = event.ctrlKey || event.metaKey || (isFocused && Math.abs(event.deltaY) > Math.abs(event.deltaX));
      const sideways = event.shiftKey && event.deltaX === 0 ? event.deltaY : event.deltaX;
      if (zooms && !event.shiftKey) {
        look(zoomTimelineWindow(window, ZOOM_STEP_FACTOR ** (-event.deltaY / 100), timeAt(event.offsetX), extent));
      } else if (sideways !== 0) {
        look(panTimelineWindow(window, (sideways / width) * (window.to - window.from), extent));
      } else return;
      event.preventDefault();
    };
    // Preact would register the wheel handler as passive, and so it could not prevent scrolling.
    element.addEventListener('wheel', onwheel, { passive: false });
    return () => element.removeEventListener('wheel', onwheel);
  }, [canvas]);

  const choose = (pick: PickedSegment | null): void => {
    const { picked, pointed } = now.current;
    if (picked.peek()?.segment === pick?.segment) return;
    picked.value = pick;
    pointed.value = pick === null ? null : { step: pick.step.step, by: 'timeline' };
  };
  const hover = (event: PointerEvent): void => {
    const { timeline, window, width, top, rowHeight } = now.current;
    const row = (event.offsetY - top) / rowHeight;
    const index = Math.floor(row);
    const slack = (SLACK / width) * (window.to - window.from);
    choose(pickSegmentAt(timeline, index, row - index < 0.5 ? 'alone' : 'together', timeAt(event.offsetX), slack));
  };
  const drag = (event: PointerEvent): void => {
    const { window, extent, width, look } = now.current;
    const before = [...down.current.values()];
    const had = down.current.get(event.pointerId)!;
    down.current.set(event.pointerId, event.offsetX);
    const after = [...down.current.values()];
    if (after.length === 1) {
      if (event.offsetX !== had) {
        look(panTimelineWindow(window, ((had - event.offsetX) / width) * (window.to - window.from), extent));
      }
      return;
    }
    look(
      zoomTimelineWindow(
        window,
        fingerDistance(after) / fingerDistance(before),
        timeAt((after[0]! + after[1]!) / 2),
        extent,
      ),
    );
  };
  const lift = (event: PointerEvent): void => void down.current.delete(event.pointerId);

  /**
   * Returns the segment of the rank above or below, at the same time and in the same half of the
   * row. If that rank has no segment at this time, returns its nearest segment.
   */
  const toRank = (pick: PickedSegment, direction: 1 | -1): PickedSegment | null => {
    const { timeline } = now.current;
    const at = pick.step.startedAt + (pick.segment.start + pick.segment.end) / 2;
    return pickSegmentAt(timeline, pick.rank + direction, rowHalfOfSegmentKind(pick.segment.kind), at, Infinity);
  };
  const onKeyDown = (event: KeyboardEvent): void => {
    const { timeline, window, extent, picked, look } = now.current;
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const length = window.to - window.from;
    const middle = (window.from + window.to) / 2;
    const pick = picked.peek();
    switch (event.key) {
      case '+':
      case '=':
        look(zoomTimelineWindow(window, ZOOM_STEP_FACTOR, pick === null ? middle : middleOf(pick), extent));
        break;
      case '-':
        look(zoomTimelineWindow(window, 1 / ZOOM_STEP_FACTOR, middle, extent));
        break;
      case 'ArrowLeft':
      case 'ArrowRight': {
        const direction = event.key === 'ArrowRight' ? 1 : -1;
        if (event.shiftKey) {
          look(panTimelineWindow(window, direction * PAN * length, extent));
          break;
        }
        const next = pick === null ? firstIn(timeline, window) : adjacentTimelineSegmentOf(timeline, pick, direction);
        if (next === null) break;
        choose(next);
        const at = middleOf(next);
        if (at < window.from || at > window.to) look(panTimelineWindow(window, at - middle, extent));
        break;
      }
      case 'ArrowUp':
      case 'ArrowDown': {
        const next = pick === null ? firstIn(timeline, window) : toRank(pick, event.key === 'ArrowDown' ? 1 : -1);
        if (next !== null) choose(next);
        break;
      }
      case 'Home':
      case 'End':
        look(
          panTimelineWindow(window, event.key === 'Home' ? extent.from - window.from : extent.to - window.to, extent),
        );
        break;
      case 'Escape':
        choose(null);
        look(null);
        break;
      default:
        return;
    }
    event.preventDefault();
    // The player of the ring must not receive these arrow keys.
    event.stopPropagation();
  };
  return {
    onPointerDown: (event: PointerEvent) => {
      down.current.set(event.pointerId, event.offsetX);
      canvas.current?.setPointerCapture(event.pointerId);
      hover(event);
    },
    onPointerMove: (event: PointerEvent) => (down.current.has(event.pointerId) ? drag(event) : hover(event)),
    onPointerUp: lift,
    onPointerCancel: lift,
    onPointerLeave: () => choose(null),
    onKeyDown,
  };
}

/** Returns the horizontal distance between two fingers in pixels, at least 8. */
function fingerDistance([a = 0, b = 0]: number[]): number {
  return Math.max(8, Math.abs(a - b));
}

function middleOf({ step, segment }: PickedSegment): number {
  return step.startedAt + (segment.start + segment.end) / 2;
}

/**
 * Returns a segment of the first rank that has steps: the first segment of the first step that
 * begins in the window. If no step begins in the window, returns the first segment of the rank's
 * latest step.
 */
function firstIn({ rows }: RanksTimeline, window: TimelineWindow): PickedSegment | null {
  for (const { rank, steps } of rows) {
    const step = steps.find((one) => one.startedAt >= window.from && one.startedAt <= window.to) ?? steps.at(-1);
    const segment = step?.segments[0];
    if (step !== undefined && segment !== undefined) return { rank, step, segment };
  }
  return null;
}
