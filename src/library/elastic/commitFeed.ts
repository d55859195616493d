/** The latest commit of an elastic job as newcomers receive it beside the user's function. */
import * as v from 'valibot';
import { ProcessGroup } from '../../collectives/processGroup.ts';
import { textOf, valueOf } from '../../collectives/objects/encoding.ts';
import type { Generation } from '../../engine/membership/generation.ts';
import { startOfRun } from '../../parallel/recovery/progress.ts';
import {
  FEEDER,
  NEWCOMER,
  StateFeed,
  type FeedHooks,
  type StateFeedOptions,
} from '../../parallel/recovery/stateFeed.ts';
import { decodeState, encodeState } from '../../formats/stateFile.ts';
import type { Clock } from '../../util/clock.ts';
import { asError } from '../../util/errors.ts';
import type { CommitHead, CommittedState } from './committedState.ts';
import { partsOf, programOf } from './synchronize.ts';

type Arrays = [Float64Array<ArrayBuffer>, ...Float32Array<ArrayBuffer>[]];

/** Returns a rank's part in feeds. A commit cannot be repeated, so only whole states are sent. */
export function feedOf(committed: CommittedState, clock: Clock, onprogress: StateFeedOptions['onprogress']): StateFeed {
  return new StateFeed({
    clock,
    onprogress,
    replica: {
      get stateBytes() {
        return committed.byteLength;
      },
      progress: () => ({ ...startOfRun(), step: committed.steps, appliedIn: committed.generation }),
      repeater: null,
      read: async () => {
        const { head, arrays } = await committed.read();
        const { scalars, ...rest } = head;
        return encodeState(textOf(rest), [scalars, ...arrays]);
      },
      load: async (bytes) => {
        const { meta, arrays } = await decodeState('The state of the other ranks', new Blob([bytes]), v.string());
        const [scalars, ...rest] = arrays as Arrays;
        committed.load({ ...(valueOf(meta) as Omit<CommitHead, 'scalars'>), scalars }, rest);
      },
    },
  });
}

/**
 * Gives a newcomer the latest commit, or receives it. Ends with the feed.
 *
 * @throws (rejects) errors of the group, and the reason of the feed's signal.
 */
export async function feedCommit(
  { mesh, rank, signal }: Generation,
  { committed, feed, clock }: { committed: CommittedState; feed: StateFeed; clock: Clock },
  hooks: FeedHooks,
): Promise<void> {
  signal.throwIfAborted();
  const group = new ProcessGroup(mesh, { clock });
  signal.addEventListener('abort', () => group.abort(asError(signal.reason)), { once: true });
  try {
    const [one, other] = await group.allGatherObject(programOf(partsOf(committed, await committed.read())));
    // Ranks with another program compare it when they enter. Then the errors name the difference.
    if (one !== other) {
      if (rank === NEWCOMER) hooks.onnear();
      return;
    }
    if (rank === FEEDER) return await feed.serve(group);
    const { steps: step, generation: appliedIn } = committed;
    await feed.receive(group, appliedIn > 0 ? { step, appliedIn } : null, hooks);
  } finally {
    group.destroy();
  }
}
