/** Loss and accuracy over steps or time; each also as a small table, for those who do not see curves. */
import { useSignal } from '@preact/signals';
import { useMemo } from 'preact/hooks';
import { formatClock, formatCount, formatLoss, formatShare } from '../format.ts';
import { smooth, smoothingFor, type Series } from '../series.ts';
import type { Evaluation, WorldChange } from '../view.ts';
import { Chart, type Mark } from './Chart.tsx';

export type XAxis = 'step' | 'time';

interface Place {
  step: number;
  at: number;
}

const ORIGIN: Place = { step: -1, at: 0 };

function xOf(axis: XAxis, place: Place): number {
  return axis === 'step' ? place.step + 1 : place.at / 1000;
}

function formatterOf(axis: XAxis): (value: number) => string {
  return axis === 'step' ? (value) => formatCount(value) : (value) => formatClock(value * 1000);
}

interface LossProps {
  losses: Series;
  /** Of the world, which are marked. */
  changes: readonly WorldChange[];
  /** Whether the losses are of this rank's samples alone. */
  ownOnly: boolean;
  axis: XAxis;
  height: number;
}

const NO_MARKS: readonly Mark[] = [];

export function LossCurve({ losses, changes, ownOnly, axis, height }: LossProps) {
  const points = useMemo(() => [...losses.points, ...losses.pending.slice(-1)], [losses]);
  const hovered = useSignal<number | null>(null);
  const data = useMemo(() => {
    // Axes need something to stand on before the first step.
    if (points.length === 0) return { x: [0, 1], raw: [null, null], line: [null, null] };
    const raw = points.map((point) => point.value);
    return { x: points.map((point) => xOf(axis, point)), raw, line: smooth(raw, smoothingFor(raw.length)) };
  }, [points, axis]);
  const marks = useMemo(
    () => changes.map((one) => ({ x: xOf(axis, one), label: `${one.from} → ${one.to} ranks` })),
    [changes, axis],
  );
  const changed = changes.map(({ step, from, to }) => ` From ${from} to ${to} ranks after step ${step + 1}.`).join('');
  const shown = hovered.value ?? points.length - 1;
  const point = points[shown];
  const first = points[0];
  const label =
    first === undefined || point === undefined
      ? 'Loss: no step yet.'
      : `Loss by ${axis}: ${formatLoss(first.value)} at first, ${formatLoss(points.at(-1)!.value)} now.${changed}`;
  return (
    <figure class="curve">
      <figcaption>
        <span>{ownOnly ? 'this rank’s loss' : 'loss'}</span>
        <span class="number">
          {point === undefined ? '–' : formatLoss(point.value)}
          {hovered.value !== null && point !== undefined && <span class="dim"> at {placeName(axis, point)}</span>}
        </span>
      </figcaption>
      <Chart
        sync="training"
        data={data}
        marks={marks}
        height={height}
        points={false}
        formatX={formatterOf(axis)}
        formatY={tickLoss}
        onhover={(index) => (hovered.value = index)}
        label={label}
      />
      <NumbersTable name="loss" rows={sample(points).map((one) => [one, formatLoss(one.value)])} />
    </figure>
  );
}

export function AccuracyCurve({
  evaluations,
  losses,
  axis,
  height,
}: {
  evaluations: readonly Evaluation[];
  losses: Series;
  axis: XAxis;
  height: number;
}) {
  const hovered = useSignal<number | null>(null);
  const start = losses.points[0] ?? ORIGIN;
  const end = losses.pending.at(-1) ?? losses.points.at(-1) ?? { step: 0, at: 1000 };
  const data = useMemo(
    // A place without a value at either end: the same stretch of x as the loss above.
    () => ({
      x: [start, ...evaluations, end].map((place) => xOf(axis, place)),
      line: [null, ...evaluations.map((one) => one.accuracy), null],
    }),
    [evaluations, axis, start, end],
  );
  const one = (hovered.value === null ? undefined : evaluations[hovered.value - 1]) ?? evaluations.at(-1);
  const label =
    one === undefined ? 'Accuracy: not measured yet.' : `Accuracy by ${axis}: ${formatShare(one.accuracy, 1)} now.`;
  return (
    <figure class="curve">
      <figcaption>
        <span>accuracy</span>
        <span class="number">
          {one === undefined ? <span class="dim">not measured yet</span> : formatShare(one.accuracy, 1)}
          {hovered.value !== null && one !== undefined && <span class="dim"> at {placeName(axis, one)}</span>}
        </span>
      </figcaption>
      <Chart
        sync="training"
        data={data}
        marks={NO_MARKS}
        height={height}
        points
        range={[0, 1]}
        formatX={formatterOf(axis)}
        formatY={(value) => formatShare(value)}
        onhover={(index) => (hovered.value = index)}
        label={label}
      />
      <NumbersTable name="accuracy" rows={sample(evaluations).map((row) => [row, formatShare(row.accuracy, 1)])} />
    </figure>
  );
}

function placeName(axis: XAxis, place: Place): string {
  return axis === 'step' ? `step ${place.step + 1}` : formatClock(place.at);
}

/** Ticks need fewer digits than values. */
function tickLoss(value: number): string {
  return value === 0 ? '0' : String(Number(value.toPrecision(2)));
}

/** Rows of the table that stands for a curve. */
const TABLE_ROWS = 12;

function sample<Row>(rows: readonly Row[]): Row[] {
  if (rows.length <= TABLE_ROWS) return [...rows];
  return Array.from({ length: TABLE_ROWS }, (_, i) => rows[Math.round((i * (rows.length - 1)) / (TABLE_ROWS - 1))]!);
}

function NumbersTable({ name, rows }: { name: string; rows: readonly (readonly [Place, string])[] }) {
  return (
    <div class="away">
      <table>
        <caption>{name}, some of the values</caption>
        <thead>
          <tr>
            <th>step</th>
            <th>{name}</th>
          </tr>
        </thead>
        <tbody>
          {rows.map(([place, value]) => (
            <tr key={place.step}>
              <td>{place.step + 1}</td>
              <td>{value}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
