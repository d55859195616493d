/** In a rank's worker: a file that rank 0 has, from rank to rank as when a generation begins. */
import { SharedFiles } from '../../src/engine/files/sharedFiles.ts';
import { distributeFiles } from '../../src/parallel/data/distributeFiles.ts';
import { systemClock } from '../../src/util/clock.ts';
import { hashState } from '../../src/util/hash.ts';
import type { WorkerRank } from '../world/rank.ts';

export interface DistributionResult {
  /** Milliseconds until all ranks had all of it, checked and stored. */
  ms: number;
  /** Of the file as this rank has it then. */
  hash: string;
  /** Bytes of frames sent, headers included. */
  bytesSent: number;
}

/** Bytes repeat after so many: a prime, so that no slice is like another. */
const PERIOD = 251;

export async function distributeFile(
  { rank, group }: WorkerRank,
  { bytes }: { bytes: number },
): Promise<DistributionResult> {
  let shared: SharedFiles | null = null;
  if (rank === 0) {
    const values = Uint8Array.from({ length: bytes }, (_, i) => i % PERIOD);
    shared = await SharedFiles.chosen([new File([values], 'file')], () => {});
  }
  // As the room's job tells it.
  const manifest = await group.broadcastObject(shared?.manifest, 0);
  shared ??= SharedFiles.awaited(manifest);
  await group.barrier();
  const sentBefore = group.bytesSent;
  const startedAt = performance.now();
  await distributeFiles(group, shared, { clock: systemClock, onprogress: () => {} });
  const ms = performance.now() - startedAt;
  const [file] = shared.files();
  const hash = hashState([new Uint8Array(await file!.arrayBuffer())]);
  return { ms, hash, bytesSent: group.bytesSent - sentBefore };
}
