/** The state of a run as newcomers receive it while the run trains. */
import { codecByName, encodedBytes } from '../../collectives/codecs.ts';
import { ddpStateFromParts, ddpStateToParts, type DdpStateHead } from '../../parallel/recovery/ddpState.ts';
import { StateFeed, type StateFeedReplica } from '../../parallel/recovery/stateFeed.ts';
import type { EngineEvent, StateReceiveProgress } from '../../protocol/events.ts';
import { CODEC_NAMES, isCollectiveCodec } from '../../spec/codecs.ts';
import type { TrainingPlan } from '../../spec/plan.ts';
import { STRATEGIES, STRATEGY_NAMES } from '../../spec/strategies.ts';
import type { Clock } from '../../util/clock.ts';
import { listInWords } from '../../util/text.ts';
import type { RunState } from '../storage/runState.ts';
import type { RunProgress } from './runProgress.ts';
import type { RunStrategy } from './runStrategy.ts';

/**
 * A line is slow if the transfer of a gradient takes at least this many times as long as a step of
 * the other ranks.
 */
const SLOWER = 2;
const REMEDY =
  `The strategies ${listInWords(STRATEGY_NAMES.filter((name) => STRATEGIES[name].local !== null))} exchange parameters seldom, ` +
  `and the codecs ${listInWords(CODEC_NAMES.filter((name) => name !== 'fp32'))} send fewer bytes.`;

/** A rank that has the whole model; see `ReplicaStep`. */
interface FedRun {
  readonly strategy: RunStrategy;
  readonly progress: RunProgress;
  snapshot(): Promise<RunState>;
  /** Replaces the progress, and the replica's state if there is one. */
  load(state: Pick<RunState, 'progress'> & Partial<RunState>): void;
}

interface FeedOptions {
  plan: TrainingPlan;
  clock: Clock;
  emit: (event: EngineEvent) => void | Promise<void>;
}

/** Returns a rank's part in feeds, or `null` if no rank of the run has the whole state. */
export function stateFeedOf(run: FedRun, { plan, clock, emit }: FeedOptions): StateFeed<DdpStateHead> | null {
  const { strategy, progress } = run;
  const { elastic } = strategy;
  if (elastic === null || plan.shardOptimizer) return null;
  return new StateFeed({
    clock,
    onprogress: (received) => void emit({ type: 'warmup', stage: 'receiving', message: describe(received), received }),
    onmeasured: ({ everyMs, rate }) => {
      const exchangeMs = exchangedBytes(plan, strategy.size) / rate;
      if (exchangeMs < SLOWER * everyMs) return;
      const message =
        `This tab's line needs about ${durationText(exchangeMs / 1000)} for each gradient, and a step takes ${durationText(everyMs / 1000)} so far. ` +
        `From now on, all ranks wait for this line in each step. ${REMEDY}`;
      void emit({ type: 'note', message });
    },
    replica: {
      get stateBytes() {
        return strategy.state().reduce((sum, { byteLength }) => sum + byteLength, 0);
      },
      progress: () => elastic.committed(progress.now),
      read: async () => {
        const { progress: at, replica } = await run.snapshot();
        return { progress: at, ...ddpStateToParts(replica) };
      },
      load: ({ progress: at, ...parts }) => run.load({ progress: at, replica: ddpStateFromParts(parts) }),
      get repeater(): StateFeedReplica<DdpStateHead>['repeater'] {
        const { repeater } = elastic;
        return (
          repeater && {
            lastUpdate: () => {
              const { lastGradient: gradient, learningRate } = repeater;
              return gradient && { gradient, learningRate };
            },
            repeat: ({ gradient, learningRate }, after) => {
              repeater.repeat(gradient, learningRate);
              run.load({ progress: after });
            },
          }
        );
      },
    },
  });
}

/** Returns the bytes that a rank of a ring receives in a step; 0 if they are not known. */
function exchangedBytes({ codec }: TrainingPlan, elements: number): number {
  if (!isCollectiveCodec(codec)) return 0;
  return 2 * encodedBytes(codecByName(codec), elements);
}

function describe({ bytes, total, rate, behind, waitsMs }: StateReceiveProgress): string {
  const speed = rate === null ? '' : `, ${(rate / 1e6).toFixed(2)} MB/s`;
  if (waitsMs === null) {
    const lag = behind ? `; ${behind} ${behind === 1 ? 'step' : 'steps'} behind` : '';
    const left = rate === null ? '' : `, ${durationText((total - bytes) / rate)} left`;
    return `Receiving the model: ${megabytes(bytes)} of ${megabytes(total)}${speed}${left}${lag}`;
  }
  return (
    `This line needs ${Math.ceil(total / rate! / 60)} min for the model (${megabytes(total)}${speed}), and the run changes the model faster. ` +
    `The others continue to train, and this tab joins in about ${Math.ceil(waitsMs / 60_000)} min`
  );
}

function durationText(seconds: number): string {
  return seconds < 90 ? `${Math.ceil(seconds)} s` : `${Math.ceil(seconds / 60)} min`;
}

function megabytes(size: number): string {
  return `${(size / 1e6).toFixed(size < 1e7 ? 1 : 0)} MB`;
}
