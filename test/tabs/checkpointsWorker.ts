/** Saves checkpoints in a worker, like the engine. */
import { Checkpoints } from '../../src/engine/storage/checkpoints.ts';
import type { Saving } from './checkpoints.ts';

globalThis.onmessage = async ({ data }: MessageEvent<Saving>): Promise<void> => {
  const checkpoints = await Checkpoints.open(data.medium);
  const told = await checkpoints.save(data.meta, data.arrays).then(() => 'saved', String);
  globalThis.postMessage(told);
};
