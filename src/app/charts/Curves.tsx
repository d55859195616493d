/** The curves of the loss and the metrics over steps or time, with tables for screen readers. */
import { useSignal, type Signal } from '@preact/signals';
import { useEffect, useMemo } from 'preact/hooks';
import {
  formatSignificant,
  formatClockDuration,
  formatCount,
  formatLoss,
  formatMetric,
  formatPercent,
} from '../locales/format.ts';
import { metricEntries, type MetricName } from '../../spec/measures.ts';
import { reportsOwnLossOnly } from '../state/strategies.ts';
import { smoothCurve, smoothingWeightFor } from '../state/series.ts';
import type { EvaluationView } from '../state/runProgress.ts';
import type { RunView } from '../state/run.ts';
import { uiMessages } from '../locales/index.ts';
import type { PointedStep } from './axis.ts';
import { Chart, type ChartMark, type ChartRange } from './Chart.tsx';
import { NumbersTable } from './NumbersTable.tsx';
import { RateCurve } from './RateCurve.tsx';
import { chartMarksOfRun, describeWorldChange, xOfChartMark, type ChartMarkPosition } from './marks.ts';
import { type XAxisUnit } from './axis.ts';

const ORIGIN: ChartMarkPosition = { step: -1, at: 0 };
const NO_MARKS: readonly ChartMark[] = [];

interface Props {
  run: RunView;
  pointed: Signal<PointedStep | null>;
}

/**
 * Shows the curve of the loss and the curve of a metric on held-out samples, with a common x axis,
 * range and crosshair. For a learning-rate range test, it shows the loss over the learning rate
 * instead.
 */
export function Curves({ run, pointed }: Props) {
  const { charts } = uiMessages.value;
  const axis = useSignal<XAxisUnit>('step');
  const isLog = useSignal(false);
  const shown = useSignal<ChartRange | null>(null);
  useEffect(() => {
    const onkey = (event: KeyboardEvent): void => {
      if (event.key === 'Escape') shown.value = null;
    };
    addEventListener('keydown', onkey);
    return () => removeEventListener('keydown', onkey);
  }, [shown]);
  const looksForRate = run.job.measure === 'learning-rate';
  const shared = { run, axis: axis.value, isLog: isLog.value, shown, pointed };
  return (
    <>
      <div class="axis-choice row small" role="group" aria-label={charts.axis}>
        {shown.value !== null && (
          <button type="button" class="choice" title={charts.wholeRunTitle} onClick={() => (shown.value = null)}>
            {charts.wholeRun}
          </button>
        )}
        {!looksForRate && (
          <button
            type="button"
            class="choice"
            title={charts.logTitle}
            aria-pressed={isLog.value}
            onClick={() => (isLog.value = !isLog.value)}
          >
            {charts.log}
          </button>
        )}
        {!looksForRate &&
          (['step', 'time'] as const).map((one) => (
            <button
              key={one}
              type="button"
              class="choice"
              aria-pressed={axis.value === one}
              onClick={() => {
                axis.value = one;
                shown.value = null;
              }}
            >
              {charts[one]}
            </button>
          ))}
      </div>
      {looksForRate ? (
        <RateCurve {...shared} />
      ) : (
        <>
          <LossCurve {...shared} />
          <HeldOutCurve {...shared} />
        </>
      )}
    </>
  );
}

interface CurveProps {
  run: RunView;
  axis: XAxisUnit;
  /** Whether the axis of losses is logarithmic. */
  isLog: boolean;
  shown: Signal<ChartRange | null>;
  pointed: Signal<PointedStep | null>;
}

function LossCurve({ run, axis, isLog, shown, pointed }: CurveProps) {
  const { charts } = uiMessages.value;
  const { losses, changes, saves } = run;
  const points = useMemo(() => [...losses.points, ...losses.pending.slice(-1)], [losses]);
  const hovered = useSignal<number | null>(null);
  const data = useMemo(() => {
    // Before the first step there are no points, but the axes still need a range.
    if (points.length === 0) return { x: [0, 1], raw: [null, null], line: [null, null] };
    const raw = points.map((point) => point.value);
    return {
      x: points.map((point) => xOfChartMark(axis, point)),
      raw,
      line: smoothCurve(raw, smoothingWeightFor(raw.length)),
    };
  }, [points, axis]);
  const marks = useMemo(() => chartMarksOfRun({ changes, saves }, axis), [changes, saves, axis, charts]);
  const point = points[hovered.value ?? points.length - 1];
  const first = points[0];
  const changesText = changes.map((one) => charts.changed(describeWorldChange(one), one.step + 1)).join(' ');
  const saved = saves.at(-1);
  const label =
    first === undefined || point === undefined
      ? charts.noLoss
      : [
          charts.lossLabel(axis, formatLoss(first.value), formatLoss(points.at(-1)!.value)),
          ...[changesText, saved === undefined ? '' : charts.savedAt(saved.step + 1)].filter((one) => one !== ''),
        ].join(' ');
  return (
    <figure class="curve">
      <figcaption>
        <span>{reportsOwnLossOnly(run.job, run.worldSize) ? charts.ownLoss : charts.loss}</span>
        <span class="number">
          {point === undefined ? '–' : formatLoss(point.value)}
          {hovered.value !== null && point !== undefined && <At axis={axis} place={point} />}
        </span>
        {saved !== undefined && <span class="dim small">{charts.savedKey}</span>}
      </figcaption>
      <Chart
        key={String(isLog)}
        {...chartProps(axis, shown, pointed, points)}
        data={data}
        marks={marks}
        height={160}
        isLog={isLog}
        points={false}
        formatY={tickLoss}
        onhover={(index) => {
          hovered.value = index;
          setPointed(pointed, index === null ? undefined : points[index]);
        }}
        label={label}
      />
      <NumbersTable
        name={charts.loss}
        over={charts.step}
        rows={points}
        describe={(one) => [stepOf(one), formatLoss(one.value)]}
      />
    </figure>
  );
}

/** A quantity that is measured on held-out samples. */
type Measure = MetricName | 'loss';

/**
 * The curve of one measure on held-out samples: the measure that the user chose, or else the first
 * metric.
 */
function HeldOutCurve({ run, axis, isLog, shown, pointed }: CurveProps) {
  const { charts } = uiMessages.value;
  const { evaluations, losses } = run;
  const measured = metricEntries(evaluations.at(-1)?.metrics ?? {}).map(([one]) => one);
  const names: Measure[] = measured.length === 0 ? [] : [...measured, 'loss'];
  const chosen = useSignal<Measure | null>(null);
  const metric = names.find((one) => one === chosen.value) ?? names[0] ?? 'accuracy';
  const nameOf = (one: Measure): string => {
    if (one === 'loss') return charts.heldOutLoss;
    return one === 'accuracy' && run.job.job === 'gpt' ? charts.predicted : charts.metrics[one];
  };
  const name = nameOf(metric);
  const isShare = metric === 'accuracy' || metric === 'top-3';
  const isLoss = metric === 'loss';
  const valueOf = ({ metrics, loss }: EvaluationView): number => (isLoss ? loss : (metrics[metric] ?? NaN));
  const formatted = (one: EvaluationView): string =>
    isLoss ? formatLoss(one.loss) : formatMetric(metric, valueOf(one));
  const hovered = useSignal<number | null>(null);
  const start = losses.points[0] ?? ORIGIN;
  const end = losses.pending.at(-1) ?? losses.points.at(-1) ?? { step: 0, at: 1000 };
  const data = useMemo(
    // Empty values at both ends give this chart the same range of x as the chart of the loss.
    () => ({
      x: [start, ...evaluations, end].map((place) => xOfChartMark(axis, place)),
      line: [null, ...evaluations.map(valueOf), null],
    }),
    [evaluations, metric, axis, start, end],
  );
  const one = (hovered.value === null ? undefined : evaluations[hovered.value - 1]) ?? evaluations.at(-1);
  return (
    <figure class="curve">
      <figcaption>
        {names.length < 2 ? (
          <span>{name}</span>
        ) : (
          <span class="row small" role="group" aria-label={charts.metric}>
            {names.map((each) => (
              <button
                key={each}
                type="button"
                class="choice"
                aria-pressed={each === metric}
                onClick={() => (chosen.value = each)}
              >
                {nameOf(each)}
              </button>
            ))}
          </span>
        )}
        <span class="number">
          {one === undefined ? <span class="dim">{charts.notMeasured}</span> : formatted(one)}
          {hovered.value !== null && one !== undefined && <At axis={axis} place={one} />}
        </span>
      </figcaption>
      <Chart
        // The y range of a chart cannot change after its creation. So each metric has its own key,
        // and a new chart is created for it.
        key={`${name} ${isLoss && isLog}`}
        isLog={isLoss && isLog}
        {...chartProps(axis, shown, pointed, losses.points)}
        data={data}
        marks={NO_MARKS}
        height={112}
        points
        {...(isShare && { range: [0, 1] as const })}
        formatY={(value) => (isShare ? formatPercent(value) : isLoss ? tickLoss(value) : formatSignificant(value))}
        onhover={(index) => (hovered.value = index)}
        label={one === undefined ? charts.noAccuracy : charts.metricLabel(name, axis, formatted(one))}
      />
      <NumbersTable
        name={name}
        over={charts.step}
        rows={evaluations}
        describe={(row) => [stepOf(row), formatted(row)]}
      />
    </figure>
  );
}

/** Settings that all charts of a run share. */
function chartProps(
  axis: XAxisUnit,
  shown: Signal<ChartRange | null>,
  pointed: Signal<PointedStep | null>,
  places: readonly ChartMarkPosition[],
) {
  const at = pointed.value?.by === 'timeline' ? pointed.value.step : null;
  const place = at === null ? undefined : places.find(({ step }) => step >= at);
  return {
    sync: 'training',
    shown,
    pointedX: at === null ? null : axis === 'step' ? at + 1 : place === undefined ? null : xOfChartMark(axis, place),
    formatX: (value: number) => (axis === 'step' ? formatCount(value) : formatClockDuration(value * 1000)),
  };
}

/** Sets the step that the user points at in the charts. */
function setPointed(pointed: Signal<PointedStep | null>, place: ChartMarkPosition | undefined): void {
  const now = pointed.peek();
  if (now?.by === 'timeline' || now?.step === place?.step) return;
  pointed.value = place === undefined ? null : { step: place.step, by: 'charts' };
}

function stepOf({ step }: ChartMarkPosition): string {
  return String(step + 1);
}

function At({ axis, place }: { axis: XAxisUnit; place: ChartMarkPosition }) {
  const { charts } = uiMessages.value;
  return (
    <span class="dim">
      {' '}
      {axis === 'step' ? charts.atStep(place.step + 1) : charts.atTime(formatClockDuration(place.at))}
    </span>
  );
}

/** The label of a tick, which has fewer digits than a value. */
function tickLoss(value: number): string {
  return value === 0 ? '0' : String(Number(value.toPrecision(2)));
}
