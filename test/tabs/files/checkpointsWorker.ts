/** A worker for tests that saves checkpoints, as the engine's worker does. */
import { Checkpoints } from '../../../src/engine/storage/checkpoints.ts';
import type { Saving } from './checkpoints.ts';

globalThis.onmessage = async ({ data }: MessageEvent<Saving>): Promise<void> => {
  const checkpoints = await Checkpoints.open(data.medium);
  const outcome = await checkpoints.save(data.meta, data.arrays).then(() => 'saved', String);
  globalThis.postMessage(outcome);
};
