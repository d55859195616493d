/** Reports how much of this machine a process of a benchmark uses. */

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
 * Answers the parent's message `{"type": "cpu"}` with {@link ServerCpu}, and each other message
 * with {@link ServerMemory} after a garbage collection. The process exits when the parent does.
 */
export function answerUsage(): void {
  process.on('message', (question: { type?: 'cpu' }) => {
    if (question.type === 'cpu') {
      const { userCPUTime, systemCPUTime, maxRSS } = process.resourceUsage();
      const cpuMs = (userCPUTime + systemCPUTime) / 1000;
      process.send!({ cpuMs, peakRss: maxRSS * 1024 } satisfies ServerCpu);
      return;
    }
    globalThis.gc?.();
    const { rss, heapUsed } = process.memoryUsage();
    process.send!({ rss, heapUsed } satisfies ServerMemory);
  });
  process.on('disconnect', () => process.exit());
}
