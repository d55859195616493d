/** Reports how much of this machine a process of a benchmark uses. */
import { existsSync, readFileSync } from 'node:fs';

export interface ServerMemory {
  /** Resident set size, and used heap in bytes. */
  rss: number;
  heapUsed: number;
}

export interface ServerCpu {
  /** Processor time of all threads since the process began, milliseconds. */
  cpuMs: number;
  /** Largest resident set size since the process began, bytes. */
  peakRss: number;
}

/**
 * Returns the largest resident set size of this process. On Linux, `resourceUsage` reports that of
 * the parent if it is larger, because the process began as its copy.
 */
function peakRss(): number {
  const file = '/proc/self/status';
  const ownKib = existsSync(file) ? /VmHWM:\s*(\d+)/.exec(readFileSync(file, 'utf8'))?.[1] : undefined;
  return Number(ownKib ?? process.resourceUsage().maxRSS) * 1024;
}

/**
 * Answers the parent's message `{"type": "cpu"}` with {@link ServerCpu}, and each other message
 * with {@link ServerMemory} after a garbage collection. The process exits when the parent does.
 */
export function answerUsage(): void {
  process.on('message', (question: { type?: 'cpu' }) => {
    if (question.type === 'cpu') {
      const { userCPUTime, systemCPUTime } = process.resourceUsage();
      const cpuMs = (userCPUTime + systemCPUTime) / 1000;
      process.send!({ cpuMs, peakRss: peakRss() } satisfies ServerCpu);
      return;
    }
    globalThis.gc?.();
    const { rss, heapUsed } = process.memoryUsage();
    process.send!({ rss, heapUsed } satisfies ServerMemory);
  });
  process.on('disconnect', () => process.exit());
}
