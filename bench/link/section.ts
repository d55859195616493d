/** The link's part of docs/BENCHMARKS.md. */
import { tableOf, type LinkResult } from './figures.ts';

export function section(result: LinkResult): string {
  return `## One link

\`npm run -s bench -- link\`: two tabs of one browser; 16 MiB in frames of 64 KiB one way, then frames of 32 bytes there and back, one
after the other. Kinds in turn, nine times, medians. A simple-peer link carries frames on a second, negotiated data channel of simple-peer's
connection; simple-peer's own channel carries nothing.

${tableOf(result)}

What a link carries here is what the cores can do of SCTP, DTLS and UDP. The worker has the data channel itself: frames do not come by
its page. A message port (tabs of one browser, \`--transport auto\`) is what the browser copies from process to process.
`;
}
