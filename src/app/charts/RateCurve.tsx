/** The curve of the loss over the learning rate in a range test, with the suggested rate. */
import { useSignal, type Signal } from '@preact/signals';
import { useMemo } from 'preact/hooks';
import { rangeTestRate } from '../../optim/schedule.ts';
import { formatLoss, formatLearningRate } from '../locales/format.ts';
import { smoothCurve, smoothingWeightFor, type CurvePoint } from '../state/series.ts';
import type { RunView } from '../state/run.ts';
import { uiMessages } from '../locales/index.ts';
import { Chart, type ChartRange } from './Chart.tsx';
import type { PointedStep } from './axis.ts';
import { NumbersTable } from './NumbersTable.tsx';

/**
 * Losses are drawn at most as high as this multiple of the highest loss in the first quarter of the
 * steps. So an exploding loss is visible, but does not flatten the rest of the curve.
 */
const HIGHEST = 1.5;
const IDLE_SHARE = 0.25;

interface Props {
  run: RunView;
  shown: Signal<ChartRange | null>;
  pointed: Signal<PointedStep | null>;
}

export function RateCurve({ run, shown, pointed }: Props) {
  const { charts } = uiMessages.value;
  const { losses, job, result } = run;
  const rateOf = ({ step }: Pick<CurvePoint, 'step'>): number => rangeTestRate(step / job.maxSteps!);
  const points = useMemo(() => losses.points.filter(({ value }) => Number.isFinite(value)), [losses]);
  const hovered = useSignal<number | null>(null);
  const suggested = result?.rateTest?.suggested ?? null;
  const data = useMemo(() => {
    if (points.length === 0) return { x: [-7, 1], raw: [null, null], line: [null, null] };
    const idle = points.filter(({ step }, i) => i === 0 || step < job.maxSteps! * IDLE_SHARE);
    const usual = Math.max(...idle.map(({ value }) => value));
    const most = usual > 0 ? usual * HIGHEST : Infinity;
    const raw = points.map(({ value }) => Math.min(value, most));
    return {
      x: points.map((point) => Math.log10(rateOf(point))),
      raw,
      line: smoothCurve(raw, smoothingWeightFor(raw.length)),
    };
  }, [points]);
  const marks = useMemo(
    () => (suggested === null ? [] : [{ x: Math.log10(suggested), label: formatLearningRate(suggested) }]),
    [suggested],
  );
  const point = points[hovered.value ?? points.length - 1];
  const at = pointed.value?.by === 'timeline' ? pointed.value.step : null;
  const suggestion = suggested === null ? '' : ` ${charts.steepestAt(formatLearningRate(suggested))}`;
  return (
    <figure class="curve">
      <figcaption>
        <span>{charts.lossByRate}</span>
        <span class="number">
          {point === undefined ? '–' : formatLoss(point.value)}
          {point !== undefined && <span class="dim"> {charts.atRate(formatLearningRate(rateOf(point)))}</span>}
        </span>
      </figcaption>
      <Chart
        sync="rates"
        shown={shown}
        pointedX={at === null ? null : Math.log10(rateOf({ step: at }))}
        formatX={(exponent) => formatLearningRate(10 ** exponent)}
        data={data}
        marks={marks}
        height={240}
        points={false}
        formatY={(value) => String(Number(value.toPrecision(2)))}
        onhover={(index) => {
          hovered.value = index;
          const step = index === null ? undefined : points[index]?.step;
          if (pointed.peek()?.by !== 'timeline') pointed.value = step === undefined ? null : { step, by: 'charts' };
        }}
        label={
          point === undefined
            ? charts.noLoss
            : charts.rateLabel(formatLearningRate(rateOf(points[0]!)), formatLearningRate(rateOf(points.at(-1)!))) +
              suggestion
        }
      />
      <NumbersTable
        name={charts.loss}
        over={charts.rate}
        rows={points}
        describe={(one) => [formatLearningRate(rateOf(one)), formatLoss(one.value)]}
      />
    </figure>
  );
}
