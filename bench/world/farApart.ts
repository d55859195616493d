/** Tabs on this machine that are as far apart as over the internet. */
import { NO_ICE, type IceOptions } from '../../signaling/ice.ts';
import { systemClock } from '../../src/util/clock.ts';
import { LineRelay } from '../../tools/network/lineRelay.ts';
import { TurnServer } from '../../tools/network/turnServer.ts';

const SECRET = 'peergrad-bench';
const SEED = 1;

export interface FarApart {
  /** Sets the lines of tabs, and counts losses. */
  relay: LineRelay;
  /** With these options, tabs connect only over their lines. */
  ice: IceOptions;
}

/** @throws (rejects) PeergradError if coturn is not installed; errors of `use`. */
export async function farApart<Result>(use: (network: FarApart) => Promise<Result>): Promise<Result> {
  const turn = await TurnServer.start(SECRET);
  const relay = await LineRelay.start({ turnPort: turn.port, clock: systemClock, seed: SEED });
  try {
    const ice = { ...NO_ICE, turn: [`turn:127.0.0.1:${relay.port}`], turnSecret: SECRET, relayOnly: true };
    return await use({ relay, ice });
  } finally {
    relay.close();
    await turn.stop();
  }
}
