/**
 * Draws the ranks of a pipeline, one row for each replica, and the micro-batches that move from
 * stage to stage as planned. Activations move above the marks, and gradients below them. The ranks
 * are rendered when the pipeline changes, and the micro-batches in every frame.
 */
import { useMemo, useRef } from 'preact/hooks';
import { smallTextPixels } from '../browser/theme.ts';
import { rankIdentityOf, rankShapePath } from '../components/rankIdentity.ts';
import { useElementSize } from '../components/useElementSize.ts';
import { formatBytes } from '../locales/format.ts';
import { uiMessages } from '../locales/index.ts';
import {
  layoutPipeline,
  pointOfTravellingValue,
  type PipelineDrawingLayout,
  type PipelinePoint,
  type PipelineRankPlace,
} from './layout.ts';
import type { PipelinePlayer } from './pipelinePlayer.ts';
import type { PipelineShape, RankStages } from './shape.ts';

export interface PipelineMember {
  /** Name of the rank; `null` for a free place. */
  name: string | null;
  pale?: boolean;
}

interface Props {
  shape: PipelineShape;
  /** The stages of each rank of a replica; `null` if they are not known yet. */
  stages: readonly RankStages[] | null;
  /** The member of each rank of the world. */
  members: readonly PipelineMember[];
  /** This page's rank; `null` if it has none. */
  you: number | null;
  player: PipelinePlayer;
}

export function PipelinePicture({ shape, stages, members, you, player }: Props) {
  const { pipeline: labels } = uiMessages.value;
  const box = useRef<HTMLDivElement>(null);
  const { width } = useElementSize(box);
  const textSize = smallTextPixels.value;
  const { ranks, replicas, ring, microBatches, schedule } = shape;
  const layout = useMemo(
    () => layoutPipeline({ width, ranks, replicas, ring, textSize, own: you }),
    [width, ranks, replicas, ring, textSize, you],
  );
  const names = members.map(({ name }, rank) => `${rank} ${name ?? ''}`.trim()).join(', ');
  return (
    <div class="pipeline" ref={box}>
      {width > 0 && (
        <svg
          width={width}
          height={layout.height}
          role="img"
          aria-label={labels.picture(ranks, replicas, microBatches, labels.schedules[schedule], ring, names)}
        >
          <Ways layout={layout} ring={ring} />
          {layout.rows.flat().map((at) => (
            <Rank
              key={at.rank}
              layout={layout}
              at={at}
              member={members[at.rank]}
              you={at.rank === you}
              stages={stages?.[at.place] ?? null}
              textSize={textSize}
            />
          ))}
          <MicroBatches layout={layout} player={player} textSize={textSize} />
        </svg>
      )}
      {layout.more > 0 && <p class="dim small">{labels.moreReplicas(layout.more)}</p>}
    </div>
  );
}

/** Draws lines between neighbouring ranks. On a ring, also connects the last and the first rank. */
function Ways({ layout, ring }: { layout: PipelineDrawingLayout; ring: boolean }) {
  return (
    <g aria-hidden="true">
      {layout.rows.map((row) => {
        const [first, last] = [row[0]!, row.at(-1)!];
        return (
          <g key={first.replica}>
            <path class="edge" d={`M${row.map(({ x, y }) => `${x.toFixed(1)},${y.toFixed(1)}`).join('L')}`} />
            {ring && <path class="edge ghost" d={wayOf(layout, 'forward', last, first)} />}
            {ring && <path class="edge ghost" d={wayOf(layout, 'backward', first, last)} />}
          </g>
        );
      })}
    </g>
  );
}

/** Number of points on the drawn way of a value. */
const WAY_POINTS = 24;

function wayOf(
  layout: PipelineDrawingLayout,
  kind: 'forward' | 'backward',
  from: PipelineRankPlace,
  to: PipelineRankPlace,
): string {
  const points = Array.from({ length: WAY_POINTS + 1 }, (_, i) =>
    pointOfTravellingValue(layout, kind, from, to, i / WAY_POINTS),
  );
  return `M${points.map(({ x, y }) => `${x.toFixed(1)},${y.toFixed(1)}`).join('L')}`;
}

interface RankProps {
  layout: PipelineDrawingLayout;
  at: PipelineRankPlace;
  member: PipelineMember | undefined;
  you: boolean;
  stages: RankStages | null;
  textSize: number;
}

function Rank({ layout, at, member, you, stages, textSize }: RankProps) {
  const { pipeline: labels } = uiMessages.value;
  const { shape, colour, outlined } = rankIdentityOf(at.rank);
  const { mark, labelled } = layout;
  const classes = [
    'mark-on-ring',
    outlined ? 'outlined' : '',
    member?.name === null ? 'empty' : '',
    member?.pale === true ? 'pale' : '',
  ];
  const isLabelled = labelled && at.replica === layout.rows[0]![0]!.replica && stages !== null;
  const lines = isLabelled
    ? [labels.stages(stages.stages), labels.layers(stages.layers.length), formatBytes(stages.bytes)]
    : [];
  return (
    <g class={classes.join(' ')} style={{ '--own': `var(--rank-${colour})`, '--on-own': `var(--on-rank-${colour})` }}>
      <title>{titleOf(at, member, stages)}</title>
      {you && <circle cx={at.x} cy={at.y} r={mark * 1.42} class="you" />}
      <path
        d={rankShapePath(shape, mark)}
        transform={`translate(${at.x.toFixed(1)},${at.y.toFixed(1)})`}
        class="rank-shape"
      />
      <text x={at.x} y={at.y + textSize * 0.36} text-anchor="middle" class="mark-number">
        {at.rank}
      </text>
      {lines.map((line, i) => (
        <text
          key={i}
          x={at.x}
          y={lineOf(layout, at, i, textSize)}
          text-anchor="middle"
          class={i === 0 ? '' : 'edge-label'}
        >
          {line}
        </text>
      ))}
    </g>
  );
}

/**
 * Index of the line of a rank's label that shows how many micro-batches the rank keeps. The lines
 * before it describe the stage.
 */
const KEEPS_LINE = 3;

/**
 * Returns the y coordinate of a line of a rank's label. The label is below the rank's mark, and
 * below the values that travel past it.
 */
function lineOf({ lane, arc, box }: PipelineDrawingLayout, at: PipelinePoint, line: number, textSize: number): number {
  return at.y + lane + arc + box.height / 2 + textSize * (1.2 + 1.35 * line);
}

function titleOf(at: PipelineRankPlace, member: PipelineMember | undefined, stages: RankStages | null): string {
  const { pipeline: labels, run } = uiMessages.value;
  const who = `${run.rank} ${at.rank} ${member?.name ?? ''}`.trim();
  return stages === null ? who : `${who}: ${labels.stages(stages.stages)}, ${stages.layers.join(', ')}`;
}

interface MicroBatchesProps {
  layout: PipelineDrawingLayout;
  player: PipelinePlayer;
  textSize: number;
}

function MicroBatches({ layout, player, textSize }: MicroBatchesProps) {
  const { pipeline: labels } = uiMessages.value;
  const frame = player.frame.value;
  if (frame === null) return null;
  const { rows, mark, box, labelled } = layout;
  return (
    <g aria-hidden="true">
      {rows.map((row, index) => {
        /** For each rank and direction: the number of waiting values that are already drawn. */
        const waiting = new Map<string, number>();
        return (
          <g key={row[0]!.replica}>
            {frame.passes.map((pass, place) => {
              const at = row[place];
              if (at === undefined) return null;
              const isSent = frame.values.some(
                ({ from, kind, microBatch }) => from === place && kind === pass?.kind && microBatch === pass.microBatch,
              );
              return (
                <g key={place}>
                  {pass !== null && <circle cx={at.x} cy={at.y} r={mark * 1.6} class={`working ${pass.kind}`} />}
                  {pass !== null && !isSent && (
                    <MicroBatch
                      {...pointOfTravellingValue(layout, pass.kind, at, at, 0)}
                      {...pass}
                      box={box}
                      size={textSize}
                    />
                  )}
                  {labelled && index === 0 && (
                    <text x={at.x} y={lineOf(layout, at, KEEPS_LINE, textSize)} text-anchor="middle" class="edge-label">
                      {labels.keeps(frame.kept[place] ?? 0)}
                    </text>
                  )}
                </g>
              );
            })}
            {frame.values.map(({ kind, microBatch, from, to, share }) => {
              const [source, target] = [row[from], row[to]];
              if (source === undefined || target === undefined) return null;
              const point = pointOfTravellingValue(layout, kind, source, target, share);
              const key = `${to}/${kind}`;
              const place = share < 1 ? 0 : (waiting.get(key) ?? 0) + 1;
              if (share === 1) waiting.set(key, place);
              const back = Math.sign(source.x - target.x) * place * box.width * 0.6;
              return (
                <MicroBatch
                  key={`${kind}/${microBatch}/${from}`}
                  x={point.x + back}
                  y={point.y}
                  kind={kind}
                  microBatch={microBatch}
                  box={box}
                  size={textSize}
                  pale={share === 1}
                />
              );
            })}
          </g>
        );
      })}
    </g>
  );
}

interface MicroBatchProps extends PipelinePoint {
  kind: 'forward' | 'backward';
  microBatch: number;
  box: PipelineDrawingLayout['box'];
  size: number;
  pale?: boolean;
}

function MicroBatch({ x, y, kind, microBatch, box, size, pale = false }: MicroBatchProps) {
  return (
    <g
      class={pale ? `micro-batch ${kind} pale` : `micro-batch ${kind}`}
      transform={`translate(${x.toFixed(1)},${y.toFixed(1)})`}
    >
      <rect x={-box.width / 2} y={-box.height / 2} width={box.width} height={box.height} rx={3} />
      <text y={size * 0.36} text-anchor="middle">
        {microBatch}
      </text>
    </g>
  );
}
