/**
 * The timeline: a lane per rank, what it does alone above what it does with others. Wheel with Ctrl, pinch, + and - zoom; drag and
 * Shift with arrows pan; arrows go from segment to segment. One canvas, drawn when something changes.
 */
import { useSignal, type Signal } from '@preact/signals';
import { useEffect, useMemo, useRef } from 'preact/hooks';
import { SEGMENT_KINDS } from '../../protocol/events.ts';
import { pageHidden } from '../env.ts';
import type { Pointed } from '../charts/Curves.tsx';
import { formatMs } from '../format.ts';
import { RankMark } from '../parts/RankMark.tsx';
import { useSize } from '../parts/useSize.ts';
import { smallText, theme, zoom } from '../theme.ts';
import { words } from '../words/index.ts';
import { drawTimeline, readPalette } from './drawTimeline.ts';
import {
  extentOf,
  neighbourOf,
  newest,
  panned,
  pickAt,
  rowOf,
  slowestStep,
  totalsOf,
  windowOf,
  zoomed,
  type Pick,
  type Timeline,
  type Window,
} from './timeline.ts';

/** Closer or further by one press or one notch of a wheel. */
const ZOOM = 1.5;
/** By one press, a share of what is in sight. */
const PAN = 0.2;
/** Pixels beside a segment that still hit it. */
const SLACK = 4;
/** Rows of more ranks than this are too low for a mark. */
const MOST_MARKS = 16;

interface Props {
  timeline: Timeline;
  you: number | null;
  /** Shared with the charts, where there are any. */
  pointed: Signal<Pointed | null>;
  /** Before there is anything to show. */
  empty: string;
}

export function TimelineView({ timeline, you, pointed, empty }: Props) {
  const { charts, run: said } = words.value;
  /** `null`: the newest steps, whatever comes. */
  const chosen = useSignal<Window | null>(null);
  const picked = useSignal<Pick | null>(null);
  const extent = useMemo(() => extentOf(timeline), [timeline]);
  const latest = useMemo(() => newest(timeline), [timeline]);
  const window = chosen.value ?? latest;
  if (extent === null || window === null) return <p class="dim small">{empty}</p>;
  const slowest = slowestStep(timeline);
  const pick = picked.value;
  const look = (next: Window | null): void => {
    chosen.value = next;
  };
  const middle = (window.from + window.to) / 2;
  return (
    <div class="timeline">
      <div class="row small timeline-bar">
        <span class="timeline-key" aria-hidden="true">
          {SEGMENT_KINDS.filter((kind) => kind !== 'exchange' || hasExchange(timeline)).map((kind) => (
            <span key={kind} class="nowrap">
              <i class={`swatch-${kind}`} /> {said.kinds[kind]}
            </span>
          ))}
        </span>
        <span class="row timeline-buttons">
          <button
            type="button"
            class="choice"
            disabled={slowest === null}
            onClick={() => slowest !== null && look(windowOf(timeline, slowest))}
          >
            {said.slowest}
          </button>
          <button type="button" class="choice" aria-pressed={chosen.value === null} onClick={() => look(null)}>
            {said.newest}
          </button>
          <button type="button" class="choice" onClick={() => look(extent)}>
            {said.allSteps}
          </button>
          <button
            type="button"
            class="choice"
            aria-label={said.further}
            title={said.further}
            onClick={() => look(zoomed(window, 1 / ZOOM, middle, extent))}
          >
            −
          </button>
          <button
            type="button"
            class="choice"
            aria-label={said.closer}
            title={said.closer}
            onClick={() => look(zoomed(window, ZOOM, middle, extent))}
          >
            +
          </button>
        </span>
      </div>
      <Lanes {...{ timeline, window, extent, picked, pointed, look, you }} />
      <p class="small timeline-note" aria-live="polite">
        {pick === null ? (
          <span class="dim">{said.timelineHelp}</span>
        ) : (
          <>
            <strong>
              {said.whoDoes(pick.rank, timeline.rows[pick.rank]?.name ?? '', said.kinds[pick.segment.kind])}
            </strong>{' '}
            {said.howLong(
              formatMs(pick.segment.end - pick.segment.start),
              formatMs(pick.segment.start),
              formatMs(pick.segment.end),
              pick.step.step + 1,
            )}
          </>
        )}
      </p>
      {timeline.rows.length > 1 && (
        <p class="dim small">{said.aligned(formatMs(timeline.errorMs), you === null ? null : you)}</p>
      )}
      <LastStep timeline={timeline} caption={charts.lastStep} />
    </div>
  );
}

function hasExchange({ rows }: Timeline): boolean {
  return rows.some(({ steps }) => steps.at(-1)?.segments.some(({ kind }) => kind === 'exchange') ?? false);
}

interface LanesProps {
  timeline: Timeline;
  window: Window;
  extent: Window;
  picked: Signal<Pick | null>;
  pointed: Signal<Pointed | null>;
  look: (next: Window | null) => void;
  you: number | null;
}

function Lanes({ timeline, window, extent, picked, pointed, look, you }: LanesProps) {
  const { run: said } = words.value;
  const canvas = useRef<HTMLCanvasElement>(null);
  const { width } = useSize(canvas);
  const n = timeline.rows.length;
  const rowHeight = Math.round((n <= 8 ? 28 : n <= MOST_MARKS ? 20 : n <= 32 ? 12 : 8) * zoom.value);
  const text = smallText.value;
  const top = Math.round(text * 2.8);
  const height = top + n * rowHeight;
  const colours = theme.value;
  const pick = picked.value;
  const mark = pointed.value?.by === 'charts' ? pointed.value.step : null;
  const hidden = pageHidden.value;
  useEffect(() => {
    const element = canvas.current;
    const context = element?.getContext('2d') ?? null;
    if (element === null || context === null || width === 0 || hidden) return;
    const scale = devicePixelRatio;
    element.width = Math.round(width * scale);
    element.height = Math.round(height * scale);
    context.setTransform(scale, 0, 0, scale, 0, 0);
    drawTimeline(context, {
      ...{ timeline, window, width, rowHeight, top, textSize: text, picked: pick, pointed: mark },
      font: getComputedStyle(element).fontFamily,
      palette: readPalette(element, context),
      sayStep: (step) => said.step(step + 1),
      sayMs: formatMs,
    });
  }, [timeline, window, width, height, rowHeight, top, text, pick, mark, hidden, colours, said]);
  const gestures = useGestures(canvas, { timeline, window, extent, width, top, rowHeight, picked, pointed, look });
  return (
    <div class="timeline-lanes">
      <div class="timeline-ranks" style={{ '--row': `${rowHeight}px`, '--top': `${top}px` }} aria-hidden="true">
        {timeline.rows.map(({ rank, name }) => (
          <span key={rank}>
            {n <= MOST_MARKS ? (
              <>
                <RankMark rank={rank} />{' '}
                <span class={rank === you ? 'ellipsis timeline-name strong' : 'ellipsis timeline-name dim'}>
                  {name}
                </span>
              </>
            ) : (
              rank % 4 === 0 && <span class="number grid-tick">{rank}</span>
            )}
          </span>
        ))}
      </div>
      <canvas
        ref={canvas}
        class="timeline-canvas"
        style={{ height: `${height}px` }}
        role="img"
        tabIndex={0}
        aria-label={said.timelineLabel(n)}
        {...gestures}
      />
    </div>
  );
}

type GestureOptions = Omit<LanesProps, 'you'> & { width: number; top: number; rowHeight: number };

/** Pointers, wheel and keys, as handlers of the canvas. */
function useGestures(canvas: { readonly current: HTMLCanvasElement | null }, options: GestureOptions) {
  const now = useRef(options);
  now.current = options;
  /** Pointers that are down, by id: their place on x. */
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
      // Without Ctrl, and not asked for, the wheel scrolls the page.
      const zooms = event.ctrlKey || event.metaKey || (isFocused && Math.abs(event.deltaY) > Math.abs(event.deltaX));
      const sideways = event.shiftKey && event.deltaX === 0 ? event.deltaY : event.deltaX;
      if (zooms && !event.shiftKey) {
        look(zoomed(window, ZOOM ** (-event.deltaY / 100), timeAt(event.offsetX), extent));
      } else if (sideways !== 0) {
        look(panned(window, (sideways / width) * (window.to - window.from), extent));
      } else return;
      event.preventDefault();
    };
    // Preact's own handlers are passive here, and could not keep the page from scrolling.
    element.addEventListener('wheel', onwheel, { passive: false });
    return () => element.removeEventListener('wheel', onwheel);
  }, [canvas]);

  const choose = (pick: Pick | null): void => {
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
    choose(pickAt(timeline, index, row - index < 0.5 ? 'alone' : 'together', timeAt(event.offsetX), slack));
  };
  const drag = (event: PointerEvent): void => {
    const { window, extent, width, look } = now.current;
    const before = [...down.current.values()];
    const had = down.current.get(event.pointerId)!;
    down.current.set(event.pointerId, event.offsetX);
    const after = [...down.current.values()];
    if (after.length === 1) {
      if (event.offsetX !== had) {
        look(panned(window, ((had - event.offsetX) / width) * (window.to - window.from), extent));
      }
      return;
    }
    const spread = ([a = 0, b = 0]: number[]): number => Math.max(8, Math.abs(a - b));
    look(zoomed(window, spread(after) / spread(before), timeAt((after[0]! + after[1]!) / 2), extent));
  };
  const lift = (event: PointerEvent): void => void down.current.delete(event.pointerId);

  /** To another rank's segment at the same time and in the same half, or the nearest there is. */
  const toRank = (pick: Pick, direction: 1 | -1): Pick | null => {
    const { timeline } = now.current;
    const at = pick.step.startedAt + (pick.segment.start + pick.segment.end) / 2;
    return pickAt(timeline, pick.rank + direction, rowOf(pick.segment.kind), at, Infinity);
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
        look(zoomed(window, ZOOM, pick === null ? middle : middleOf(pick), extent));
        break;
      case '-':
        look(zoomed(window, 1 / ZOOM, middle, extent));
        break;
      case 'ArrowLeft':
      case 'ArrowRight': {
        const direction = event.key === 'ArrowRight' ? 1 : -1;
        if (event.shiftKey) {
          look(panned(window, direction * PAN * length, extent));
          break;
        }
        const next = pick === null ? firstIn(timeline, window) : neighbourOf(timeline, pick, direction);
        if (next === null) break;
        choose(next);
        const at = middleOf(next);
        if (at < window.from || at > window.to) look(panned(window, at - middle, extent));
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
        look(panned(window, event.key === 'Home' ? extent.from - window.from : extent.to - window.to, extent));
        break;
      case 'Escape':
        choose(null);
        look(null);
        break;
      default:
        return;
    }
    event.preventDefault();
    // The arrows of the player are not meant.
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

function middleOf({ step, segment }: Pick): number {
  return step.startedAt + (segment.start + segment.end) / 2;
}

/** The first segment in sight. */
function firstIn({ rows }: Timeline, window: Window): Pick | null {
  for (const { rank, steps } of rows) {
    const step = steps.find((one) => one.startedAt >= window.from && one.startedAt <= window.to) ?? steps.at(-1);
    const segment = step?.segments[0];
    if (step !== undefined && segment !== undefined) return { rank, step, segment };
  }
  return null;
}

/** What the picture says of the newest step, for those who do not see it. */
function LastStep({ timeline, caption }: { timeline: Timeline; caption: string }) {
  const { run: said } = words.value;
  return (
    <div class="away">
      <table>
        <caption>{caption}</caption>
        <thead>
          <tr>
            <th>{said.rank}</th>
            {SEGMENT_KINDS.map((kind) => (
              <th key={kind}>{said.kinds[kind]}</th>
            ))}
          </tr>
        </thead>
        <tbody>
          {timeline.rows.map(({ rank, name, steps }) => {
            const last = steps.at(-1);
            const totals = last === undefined ? null : totalsOf(last);
            return (
              <tr key={rank}>
                <th scope="row">
                  {rank} {name}
                </th>
                {SEGMENT_KINDS.map((kind) => (
                  <td key={kind}>{totals === null ? '–' : formatMs(totals[kind])}</td>
                ))}
              </tr>
            );
          })}
        </tbody>
      </table>
    </div>
  );
}
