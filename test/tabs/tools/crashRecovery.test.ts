/** Kills all tabs of a run, and checks that the run resumes from a checkpoint. */
import { expect, test, vi } from 'vitest';
import { runTools } from '../../../tools/cli.ts';
import type { CrashRecoveryReport } from '../../../tools/crashRecovery/crashRecovery.ts';

vi.setConfig({ testTimeout: 150_000 });

test('a run resumes from its latest checkpoint after all its tabs were killed', async () => {
  const job = '--steps 12 --hash-every 4 --batch 4 --hidden 8 --backend webgpu';
  const out: string[] = [];
  const err: string[] = [];
  const { signal } = new AbortController();
  const io = {
    out: (line: string) => void out.push(line),
    err: (line: string) => void err.push(line),
    terminal: null,
    signal,
  };
  const code = await runTools(`crash-recovery --tabs 2 --kills 1 --seed 3 ${job} --json`.split(' '), io);
  const { attempts, mostLost, interval } = JSON.parse(out.at(-1)!) as CrashRecoveryReport;
  expect(attempts, err.join('\n')).toHaveLength(1);
  expect(mostLost).toBeLessThanOrEqual(interval);
  expect(code).toBe(0);
});
