/** Runs one end of a test case of the link contract, on the thread that owns the link. */
import type { Link } from '../../src/transport/link.ts';
import { LINK_CASES } from '../transport/linkCompliance.ts';

export type End = 'alice' | 'bob';

/** Resolves once this end has passed the test case. Rejects if it fails. */
export async function runEnd(name: string, end: End, opening: Promise<Link>): Promise<void> {
  const linkCase = LINK_CASES.find((candidate) => candidate.name === name)!;
  await linkCase[end](await opening);
}
