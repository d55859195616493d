/**
 * Runs in a rank's worker: distributes a file of rank 0 from rank to rank, like the engine at the
 * start of a generation.
 */
import { SharedFiles } from '../../src/engine/files/sharedFiles.ts';
import { distributeFiles } from '../../src/parallel/data/distributeFiles.ts';
import { systemClock } from '../../src/util/clock.ts';
import { hashState } from '../../src/util/hash.ts';
import type { WorkerRank } from '../world/rank.ts';

export interface DistributionResult {
  /** Milliseconds until all ranks had checked and stored the file. */
  ms: number;
  /** Hash of this rank's file. */
  hash: string;
  /** Bytes of the frames that this rank sent, headers included. */
  bytesSent: number;
}

/** Period of the bytes. It is a prime, so that no two slices are equal. */
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
  // All ranks need the manifest. In a run it is part of the room's job.
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
