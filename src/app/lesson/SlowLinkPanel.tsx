/**
 * Slows a link down, and shows who waited for whom. There is a lane for each rank and a block for
 * each step.
 */
import { IndexSelect } from '../components/IndexSelect.tsx';
import { useSignal } from '@preact/signals';
import { rightNeighbourOf } from '../../collectives/plans/ringPlan.ts';
import { lessonRoundMs } from '../../engine/lesson/lessonRound.ts';
import type { LessonRound } from '../../protocol/lesson.ts';
import { formatMs } from '../locales/format.ts';
import { RankMark } from '../components/RankMark.tsx';
import { uiMessages } from '../locales/index.ts';
import { viewpointRank, type LessonControls } from './lessonControls.ts';
import { ranksShownInRows } from './rows.ts';

const SECONDS = [2, 4, 6, 8];
const USUAL_SECONDS = 4;
/**
 * A step that takes more milliseconds than this is shown as delayed. The delay of a slow link is at
 * least twice this time.
 */
const STALL_MS = 1000;

export function SlowLinkPanel({ controls }: { controls: LessonControls }) {
  const { stall } = uiMessages.value.lesson;
  const { state, leads, isMoving, order } = controls;
  const { slow, round } = state;
  const n = round.n;
  const rank = useSignal(0);
  const seconds = useSignal<number>(USUAL_SECONDS);
  const from = Math.min(rank.value, n - 1);
  return (
    <>
      {leads && slow === null && n > 1 && (
        <div class="row lesson-form">
          <IndexSelect
            class="field"
            label={<span>{stall.from}</span>}
            options={round.own.map((_, one) =>
              round.mode === 'ring' ? stall.line(one, rightNeighbourOf(one, n)) : stall.lineOf(one),
            )}
            index={from}
            onpick={(index) => (rank.value = index)}
          />
          <IndexSelect
            class="field"
            label={<span>{stall.seconds}</span>}
            options={SECONDS.map(stall.longer)}
            index={SECONDS.indexOf(seconds.value)}
            onpick={(index) => (seconds.value = SECONDS[index]!)}
          />
          <button
            type="button"
            disabled={isMoving}
            onClick={() => order({ type: 'slow', slow: { rank: from, seconds: seconds.value } })}
          >
            {stall.slow}
          </button>
        </div>
      )}
      {slow !== null && (
        <div class="row">
          <p class="wait">{stall.is(slow.rank, slow.seconds)}</p>
          {leads && (
            <button type="button" disabled={isMoving} onClick={() => order({ type: 'slow', slow: null })}>
              {stall.fast}
            </button>
          )}
        </div>
      )}
      {round.steps.length === 0 ? <p class="dim small">{stall.none}</p> : <Timeline controls={controls} />}
    </>
  );
}

function Timeline({ controls }: { controls: LessonControls }) {
  const { state, isSolo } = controls;
  const { lesson } = uiMessages.value;
  const { stall } = lesson;
  const { round } = state;
  const whole = lessonRoundMs(round);
  const at = (ms: number): string => `${((ms / whole) * 100).toFixed(2)}%`;
  return (
    <figure class="stalls">
      <figcaption class="small">{stall.timeline}</figcaption>
      <ul class="plain">
        {ranksShownInRows(round.n, viewpointRank(controls)).map((rank) => {
          const blocks = timeBlocksOfRank(round, rank);
          const waits = blocks.map(({ from, to }, step) => stall.step(step + 1, formatMs(to - from)));
          return (
            <li key={rank}>
              <span class="away">{stall.row(rank, waits.join(', '))}</span>
              <span aria-hidden="true">
                <RankMark rank={rank} />
              </span>
              <span class="stall-lane" aria-hidden="true">
                {blocks.map(({ from, to, isStalled }, step) => (
                  <i key={step} class={isStalled ? 'stalled' : ''} style={{ left: at(from), width: at(to - from) }}>
                    {isStalled && blocks.length <= 16 ? step + 1 : ''}
                  </i>
                ))}
              </span>
            </li>
          );
        })}
      </ul>
      <p class="row spread small dim" aria-hidden="true">
        <span>0</span>
        <span class="number">{formatMs(whole)}</span>
      </p>
      <p class="dim small">
        {stall.note} {isSolo ? stall.simulatedClock : stall.ownClocks}
      </p>
    </figure>
  );
}

/**
 * Returns the steps of a rank as blocks in time. A block starts when the rank has the data to send
 * in this step, and ends when the rank has received the data of this step.
 */
export function timeBlocksOfRank(
  { steps }: LessonRound,
  rank: number,
): { from: number; to: number; isStalled: boolean }[] {
  return steps.map(({ startedAt, endedAt }) => {
    const [from, to] = [startedAt[rank]!, endedAt[rank]!];
    return { from, to, isStalled: to - from > STALL_MS };
  });
}
