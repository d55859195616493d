/** The state of a run as newcomers receive it beside the training. */
import * as v from 'valibot';
import type { Progress } from '../../parallel/recovery/progress.ts';
import { StateFeed } from '../../parallel/recovery/stateFeed.ts';
import type { EngineEvent, Receiving } from '../../protocol/events.ts';
import { decodeState, encodeState } from '../../protocol/stateFile.ts';
import type { TrainingPlan } from '../../spec/plan.ts';
import type { Clock } from '../../util/clock.ts';
import type { RunState } from './runState.ts';
import type { RunStrategy } from './runStrategy.ts';

type Meta = { progress: Progress; order: number[]; name: string };
const Meta = v.custom<Meta>((meta) => typeof meta === 'object');

/** Parameters, buffers, the optimizer's scalars, and its averages. */
type Arrays = [
  ...[Float32Array<ArrayBuffer>, Float32Array<ArrayBuffer>, Float64Array<ArrayBuffer>],
  ...Float32Array<ArrayBuffer>[],
];

interface FeedOptions {
  plan: TrainingPlan;
  strategy: RunStrategy;
  clock: Clock;
  emit: (event: EngineEvent) => void | Promise<void>;
  /** Progress after the latest step. */
  progress: () => Progress;
  snapshot: () => Promise<RunState>;
  /** Replaces the progress, and the replica's state if there is one. */
  load: (state: Pick<RunState, 'progress'> & Partial<RunState>) => void;
}

/** Returns a rank's part in feeds, or `null` if no rank of the run has the whole state. */
export function feedOf({ plan, strategy, clock, emit, progress, snapshot, load }: FeedOptions): StateFeed | null {
  const { elastic } = strategy;
  if (elastic === null || plan.shardOptimizer) return null;
  return new StateFeed({
    clock,
    onprogress: (received) => void emit({ type: 'warmup', stage: 'receiving', message: describe(received), received }),
    replica: {
      get stateBytes() {
        return strategy.state().reduce((sum, { byteLength }) => sum + byteLength, 0);
      },
      progress: () => elastic.committed(progress()),
      lastUpdate: () => {
        const { lastGradient, learningRate } = elastic.repeater ?? { lastGradient: null, learningRate: 0 };
        return lastGradient && { gradient: lastGradient, learningRate };
      },
      read: async () => {
        const { progress: at, replica } = await snapshot();
        const { order, parameters, buffers, optimizer } = replica;
        const { name, scalars, slots } = optimizer;
        return encodeState({ progress: at, order, name }, [parameters, buffers, scalars, ...slots]);
      },
      load: async (bytes) => {
        const { meta, arrays } = await decodeState('The state of the other ranks', new Blob([bytes]), Meta);
        const { order, name, progress: at } = meta;
        const [parameters, buffers, scalars, ...slots] = arrays as Arrays;
        load({ progress: at, replica: { order, parameters, buffers, optimizer: { name, scalars, slots } } });
      },
      repeat: ({ gradient, learningRate }, after) => {
        elastic.repeater!.repeat(gradient, learningRate);
        load({ progress: after });
      },
    },
  });
}

function describe({ bytes, total, rate, behind, waitsMs }: Receiving): string {
  const speed = rate === null ? '' : `, ${(rate / 1e6).toFixed(2)} MB/s`;
  if (waitsMs === null) {
    const lag = behind ? `; ${behind} ${behind === 1 ? 'step' : 'steps'} behind` : '';
    const left = rate === null ? '' : `, ${durationText((total - bytes) / rate)} left`;
    return `Receiving the model: ${megabytes(bytes)} of ${megabytes(total)}${speed}${left}${lag}`;
  }
  return (
    `This line needs ${Math.ceil(total / rate! / 60)} min for the model (${megabytes(total)}${speed}), and the run changes it faster. ` +
    `The others train on, and this tab takes part in about ${Math.ceil(waitsMs / 60_000)} min`
  );
}

function durationText(seconds: number): string {
  return seconds < 90 ? `${Math.ceil(seconds)} s` : `${Math.ceil(seconds / 60)} min`;
}

function megabytes(size: number): string {
  return `${(size / 1e6).toFixed(size < 1e7 ? 1 : 0)} MB`;
}
