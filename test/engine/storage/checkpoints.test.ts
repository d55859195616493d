/** Removal of checkpoints from a browser's storage, and errors of the storage. */
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { Checkpoints, CHECKPOINTS_KEPT } from '../../../src/engine/storage/checkpoints.ts';
import type { CheckpointMeta } from '../../../src/formats/checkpoint.ts';
import { parseJob } from '../../../src/spec/job.ts';
import { StorageError } from '../../../src/util/errors.ts';

/** Stored files. The keys are names. */
let files: Map<string, Uint8Array<ArrayBuffer>>;
/** Files that another tab has open. */
let open: Set<string>;

/** The part of a browser's private file system that is needed. */
const directory = {
  keys: () => files.keys(),
  async getFileHandle(name: string, { create = false } = {}) {
    if (!files.has(name) && !create) throw new DOMException('There is no such file.', 'NotFoundError');
    return {
      getFile: async () => new Blob([files.get(name)!]),
      createWritable: async () => ({
        write: async (bytes: Uint8Array<ArrayBuffer>) => files.set(name, bytes),
        close: async () => {},
      }),
    };
  },
  async removeEntry(name: string) {
    if (open.has(name)) throw new DOMException('Modifications are not allowed.', 'NoModificationAllowedError');
    files.delete(name);
  },
};

beforeEach(() => {
  [files, open] = [new Map(), new Set()];
  const root = { getDirectoryHandle: async () => directory };
  vi.stubGlobal('navigator', { storage: { getDirectory: async () => root } });
});
afterEach(() => vi.unstubAllGlobals());

function metaOf(step: number, room = 'K7F3QX'): CheckpointMeta {
  return {
    ...{
      id: `${room}-${step}`,
      room,
      job: parseJob({}),
      savedAt: step,
      step,
      position: { epoch: 0, offset: step },
    },
    ...{ evaluateEvery: 5, verdicts: [], trainedMs: 0, losses: [], stateHash: '0123456789abcdef', worldSize: 2 },
  };
}

async function saveAll(...metas: CheckpointMeta[]): Promise<Checkpoints> {
  const checkpoints = await Checkpoints.open('opfs');
  for (const meta of metas) await checkpoints.save(meta, [new Float32Array(4)]);
  return checkpoints;
}

test('only checkpoints of the given run, up to the given step, are removed', async () => {
  const checkpoints = await saveAll(metaOf(100), metaOf(500), metaOf(900), metaOf(100, 'QQQQQQ'));
  await checkpoints.removeRun(metaOf(100), 500);
  expect([...files.keys()]).toEqual(['K7F3QX-900', 'QQQQQQ-100']);
  await checkpoints.removeRun(metaOf(100));
  expect([...files.keys()]).toEqual(['QQQQQQ-100']);
});

test('a save succeeds even if an old checkpoint cannot be removed; a later save removes this checkpoint', async () => {
  open.add('K7F3QX-1');
  const steps = Array.from({ length: CHECKPOINTS_KEPT + 2 }, (_, i) => i + 1);
  const checkpoints = await saveAll(...steps.map((step) => metaOf(step)));
  // All old checkpoints are removed, except the one that could not be removed.
  expect([...files.keys()]).toEqual(['K7F3QX-1', ...steps.slice(-CHECKPOINTS_KEPT).map((step) => `K7F3QX-${step}`)]);
  await checkpoints.removeRun(metaOf(1));
  expect([...files.keys()]).toEqual(['K7F3QX-1']);
  open.clear();
  await checkpoints.removeRun(metaOf(1));
  expect([...files.keys()]).toEqual([]);
});

test('the message of a storage error ends with a single full stop', async () => {
  const checkpoints = await saveAll(metaOf(1));
  open.add('K7F3QX-1');
  const removing = checkpoints.remove('K7F3QX-1');
  await expect(removing).rejects.toThrow(StorageError);
  await expect(removing).rejects.toThrow(/checkpoint K7F3QX-1: Modifications are not allowed\.$/);
});
