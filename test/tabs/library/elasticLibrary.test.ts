/** Elastic jobs of the library in real tabs. */
import { expect, test } from 'vitest';
import type { ElasticReport } from '../../../tools/elastic/elastic.ts';
import { runTools } from '../../../tools/cli.ts';

test(
  'an elastic job uses every sample once when a tab is closed and another one joins',
  { timeout: 60_000 },
  async () => {
    const lines: string[] = [];
    const io = {
      out: (line: string) => void lines.push(line),
      err: () => {},
      terminal: null,
      signal: new AbortController().signal,
    };
    expect(await runTools(['elastic', '--seeds', '1', '--json'], io)).toBe(0);
    const report = JSON.parse(lines.at(-1)!) as ElasticReport;
    expect(report).toMatchObject({ seeds: 1, samplesSkipped: 0, samplesRepeated: 0, hashMismatches: 0 });
    expect(report.trials[0]).toMatchObject({ kill: 'close', ranks: 4 });
    // One for the closed tab, and one for the tab that joins.
    expect(report.stepsRepeated).toBeLessThanOrEqual(2);
  },
);
