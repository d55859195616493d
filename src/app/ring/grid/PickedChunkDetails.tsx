/**
 * Shows details of the picked chunk: the rank that holds this copy, its bytes, its numbers, and its
 * way with times.
 */
import { useComputed } from '@preact/signals';
import { chunkRange } from '../../../collectives/plans/ringPlan.ts';
import type { PlanTransfer } from '../../../collectives/plans/planSteps.ts';
import { formatBytes, formatMs } from '../../locales/format.ts';
import { RankMark } from '../../components/RankMark.tsx';
import type { AllReduceTraceRecord } from '../../../protocol/stepTrace.ts';
import { uiMessages } from '../../locales/index.ts';
import type { RingFrame } from '../frameAt.ts';
import {
  describeChunks,
  holderOfPickedChunk,
  transferOfPickedChunk,
  narratePickedChunk,
  planStepOfFrame,
} from '../narrate.ts';
import { formatChunkSums } from '../numbers.ts';
import type { PickedChunk, RingPlayer, PlayedRound } from '../player/player.ts';

/**
 * The bytes of a chunk are computed for elements of four bytes, the size of a float32. If a codec
 * encodes the gradients, this number of bytes is only approximate.
 */
const BYTES_PER_ELEMENT = 4;
/**
 * The sums of a chunk are written out if it has at most this number of elements. The chunks of the
 * lesson have one or two.
 */
const MOST_SUMS = 4;

interface Props {
  player: RingPlayer;
  /** The rank that measured the times; `null` if they are simulated. */
  clock: number | null;
}

export function PickedChunkDetails({ player, clock }: Props) {
  // The text is not computed on every frame, but only when a step begins, when its chunks leave,
  // and when it ends.
  const moment = useComputed(() => {
    const now = player.frame.value;
    return now === null ? -1 : 2 * now.completed + Math.min(1, now.flights.length);
  });
  const picked = player.picked.value;
  const round = player.round.value;
  const frame = moment.value < 0 ? null : player.frame.peek();
  return (
    <div class="chunk-detail small">
      {picked === null || round === null || frame === null ? (
        <p class="dim">{uiMessages.value.ring.hint}</p>
      ) : (
        <Facts picked={picked} round={round} frame={frame} clock={clock} />
      )}
    </div>
  );
}

function Facts({
  picked,
  round,
  frame,
  clock,
}: {
  picked: PickedChunk;
  round: PlayedRound;
  frame: RingFrame;
  clock: number | null;
}) {
  const { ring } = uiMessages.value;
  const { trace, numbers } = round;
  const { plan } = frame;
  const move = transferOfPickedChunk(frame, picked);
  const { first, count } = picked.sender === null || move === null ? { first: picked.chunk, count: 1 } : move;
  const { chunk } = picked;
  const elements = Math.floor(trace.bytes / BYTES_PER_ELEMENT);
  const { start } = chunkRange(elements, plan.chunks, first);
  const { end } = chunkRange(elements, plan.chunks, first + count - 1);
  const { planStep } = planStepOfFrame(frame);
  const place = plan.steps.findIndex((one) => one.planStep === planStep);
  const sums =
    numbers === undefined
      ? []
      : formatChunkSums(frame.cells[holderOfPickedChunk(frame, picked)]![chunk]!, numbers, chunk);
  return (
    <>
      {sums.length > 0 && (
        <p class="sums">
          {sums.slice(0, MOST_SUMS).map((sum, i) => (
            <span key={i}>{sum}</span>
          ))}
          {sums.length > MOST_SUMS && '…'}
        </p>
      )}
      <p>{narratePickedChunk(frame, picked, undefined)}</p>
      {move !== null && (
        <p>
          {ring.chunk(
            describeChunks({ first, count }, plan.chunks),
            trace.bytes > 0 ? formatBytes((end - start) * BYTES_PER_ELEMENT) : null,
          )}{' '}
          {ring.moves(
            <RankMark rank={move.from} />,
            <RankMark rank={move.to} />,
            place + 1,
            plan.steps.length,
            plan.algorithm === 'ring',
          )}
        </p>
      )}
      {move !== null && <p class="dim">{clock === null ? ring.noTimes : timesOf(trace, planStep, move, clock)}</p>}
    </>
  );
}

/** Describes when the chunk left or arrived, if the measuring rank `clock` knows these times. */
function timesOf(trace: AllReduceTraceRecord, planStep: number, { from, to }: PlanTransfer, clock: number): string {
  const { ring } = uiMessages.value;
  const hop = trace.hops.find((one) => one.planStep === planStep);
  const since = (at: number | null | undefined): string | null =>
    at === null || at === undefined ? null : formatMs(at - trace.startedAt);
  const left = since(hop?.sentAt);
  const arrived = since(hop?.receivedAt);
  if (from === clock && left !== null) return ring.left(left, clock);
  if (to === clock && arrived !== null) return ring.arrived(arrived, clock);
  return ring.ownTimes(clock, left, arrived);
}
