/** Runs one end of a test case of the link contract, on the thread that owns the link. */
import { FRAME_HEADER_BYTES } from '../../../src/protocol/frame.ts';
import type { Link } from '../../../src/transport/link.ts';
import { LINK_CASES } from '../../transport/linkCompliance.ts';

export type End = 'alice' | 'bob';

/** Frames over data channels are numbered in their headers. */
const HEADER = new Uint8Array(FRAME_HEADER_BYTES);

/**
 * Resolves once this end has passed the test case. Rejects if it fails.
 *
 * @param connections the test case begins when the link has this number of connections.
 */
export async function runEnd(name: string, end: End, opening: Promise<Link>, connections = 0): Promise<void> {
  const linkCase = LINK_CASES.find((candidate) => candidate.name === name)!;
  const link = await opening;
  while ((await link.describe()).connections < connections) await new Promise((resolve) => setTimeout(resolve, 10));
  await linkCase[end](link, HEADER);
}
