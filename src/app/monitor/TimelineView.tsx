/**
 * Shows the timeline of a run. Each rank has a lane, with computation above communication. All
 * lanes are on one canvas, which is drawn only when something changes.
 */
import { contextInCssPixels } from '../components/canvas.ts';
import { useSignal, type Signal } from '@preact/signals';
import { useEffect, useMemo, useRef } from 'preact/hooks';
import type { StepSegment, StepSegmentKind } from '../../protocol/stepTrace.ts';
import { pageHidden } from '../browser/env.ts';
import type { PointedStep } from '../charts/axis.ts';
import { formatMs } from '../locales/format.ts';
import { RankMark } from '../components/RankMark.tsx';
import { useElementSize } from '../components/useElementSize.ts';
import { smallTextPixels, theme, zoom } from '../browser/theme.ts';
import { uiMessages } from '../locales/index.ts';
import { drawTimeline, readTimelinePalette } from './drawTimeline.ts';
import {
  timelineExtentOf,
  segmentKindsOf,
  newestTimelineWindow,
  slowestStep,
  segmentTotalsMs,
  timelineWindowOfStep,
  zoomTimelineWindow,
  type PickedSegment,
  type RanksTimeline,
  type TimelineWindow,
} from './timeline.ts';
import { type TimelineGestureOptions, useTimelineGestures, ZOOM_STEP_FACTOR } from './useTimelineGestures.ts';

/** With more ranks than this, rows would be too low for a mark. */
const MOST_MARKS = 16;

interface Props {
  timeline: RanksTimeline;
  you: number | null;
  /** The step that the user points at, shared with the charts of the page. */
  pointed: Signal<PointedStep | null>;
  /** The text that is shown before there are steps. */
  empty: string;
}

export function TimelineView({ timeline, you, pointed, empty }: Props) {
  const { charts, run: labels, pipeline } = uiMessages.value;
  /** The window that the user chose. If it is `null`, the window follows the newest steps. */
  const chosen = useSignal<TimelineWindow | null>(null);
  const picked = useSignal<PickedSegment | null>(null);
  const extent = useMemo(() => timelineExtentOf(timeline), [timeline]);
  const latest = useMemo(() => newestTimelineWindow(timeline), [timeline]);
  const window = chosen.value ?? latest;
  if (extent === null || window === null) return <p class="dim small">{empty}</p>;
  const kinds = segmentKindsOf(timeline);
  const isPipeline = kinds.includes('forward');
  const slowest = slowestStep(timeline);
  const pick = picked.value;
  const look = (next: TimelineWindow | null): void => {
    chosen.value = next;
  };
  const middle = (window.from + window.to) / 2;
  return (
    <div class="timeline">
      <div class="row small timeline-bar">
        <span class="timeline-key" aria-hidden="true">
          {kinds.map((kind) => (
            <span key={kind} class="nowrap">
              <i class={`swatch-${kind}`} /> {labels.kinds[kind]}
            </span>
          ))}
        </span>
        <span class="row timeline-buttons">
          <button
            type="button"
            class="choice"
            disabled={slowest === null}
            onClick={() => slowest !== null && look(timelineWindowOfStep(timeline, slowest))}
          >
            {labels.slowest}
          </button>
          <button type="button" class="choice" aria-pressed={chosen.value === null} onClick={() => look(null)}>
            {labels.newest}
          </button>
          <button type="button" class="choice" onClick={() => look(extent)}>
            {labels.allSteps}
          </button>
          <button
            type="button"
            class="choice"
            aria-label={labels.further}
            title={labels.further}
            onClick={() => look(zoomTimelineWindow(window, 1 / ZOOM_STEP_FACTOR, middle, extent))}
          >
            −
          </button>
          <button
            type="button"
            class="choice"
            aria-label={labels.closer}
            title={labels.closer}
            onClick={() => look(zoomTimelineWindow(window, ZOOM_STEP_FACTOR, middle, extent))}
          >
            +
          </button>
        </span>
      </div>
      <Lanes
        timeline={timeline}
        window={window}
        extent={extent}
        picked={picked}
        pointed={pointed}
        look={look}
        you={you}
      />
      <p class="small timeline-note" aria-live="polite">
        {pick === null ? (
          <span class="dim">{isPipeline ? pipeline.timelineHelp : labels.timelineHelp}</span>
        ) : (
          <>
            <strong>{labels.whoDoes(pick.rank, timeline.rows[pick.rank]?.name ?? '', activityOf(pick.segment))}</strong>{' '}
            {labels.howLong(
              formatMs(pick.segment.end - pick.segment.start),
              formatMs(pick.segment.start),
              formatMs(pick.segment.end),
              pick.step.step + 1,
            )}
            {pick.step.commands && ` ${labels.commands(pick.step.commands.dispatches, pick.step.commands.submits)}`}
          </>
        )}
      </p>
      {timeline.rows.length > 1 && (
        <p class="dim small">{(isPipeline ? pipeline : labels).aligned(formatMs(timeline.errorMs), you)}</p>
      )}
      <LastStep timeline={timeline} kinds={kinds} caption={charts.lastStep} />
    </div>
  );
}

function activityOf({ kind, pass }: StepSegment): string {
  const { run: labels, pipeline } = uiMessages.value;
  return pass ? pipeline.passOf(labels.kinds[kind], pass.microBatch, pass.stage) : labels.kinds[kind];
}

interface LanesProps extends Omit<TimelineGestureOptions, 'width' | 'top' | 'rowHeight'> {
  you: number | null;
}

function Lanes({ timeline, window, extent, picked, pointed, look, you }: LanesProps) {
  const { run: labels } = uiMessages.value;
  const canvas = useRef<HTMLCanvasElement>(null);
  const { width } = useElementSize(canvas);
  const n = timeline.rows.length;
  const rowHeight = Math.round((n <= 8 ? 28 : n <= MOST_MARKS ? 20 : n <= 32 ? 12 : 8) * zoom.value);
  const text = smallTextPixels.value;
  const top = Math.round(text * 2.8);
  const height = top + n * rowHeight;
  const colours = theme.value;
  const pick = picked.value;
  const mark = pointed.value?.by === 'charts' ? pointed.value.step : null;
  const hidden = pageHidden.value;
  useEffect(() => {
    const element = canvas.current;
    const context = hidden ? null : contextInCssPixels(element, width, height);
    if (element === null || context === null) return;
    drawTimeline(context, {
      timeline,
      window,
      width,
      rowHeight,
      top,
      textSize: text,
      picked: pick,
      pointed: mark,
      font: getComputedStyle(element).fontFamily,
      palette: readTimelinePalette(element, context),
      formatStep: (step) => labels.step(step + 1),
    });
  }, [timeline, window, width, height, rowHeight, top, text, pick, mark, hidden, colours, labels]);
  const gestures = useTimelineGestures(canvas, {
    timeline,
    window,
    extent,
    width,
    top,
    rowHeight,
    picked,
    pointed,
    look,
  });
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
        aria-label={labels.timelineLabel(n)}
        {...gestures}
      />
    </div>
  );
}

/** Shows the newest step as a table, for screen readers. */
interface LastStepProps {
  timeline: RanksTimeline;
  kinds: readonly StepSegmentKind[];
  caption: string;
}

function LastStep({ timeline, kinds, caption }: LastStepProps) {
  const { run: labels } = uiMessages.value;
  return (
    <div class="away">
      <table>
        <caption>{caption}</caption>
        <thead>
          <tr>
            <th>{labels.rank}</th>
            {kinds.map((kind) => (
              <th key={kind}>{labels.kinds[kind]}</th>
            ))}
          </tr>
        </thead>
        <tbody>
          {timeline.rows.map(({ rank, name, steps }) => {
            const last = steps.at(-1);
            const totals = last === undefined ? null : segmentTotalsMs(last);
            return (
              <tr key={rank}>
                <th scope="row">
                  {rank} {name}
                </th>
                {kinds.map((kind) => (
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
