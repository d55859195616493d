/** Creates networks for simulations from the constants of the cost model. */
import type { NetworkCosts } from '../collectives/plans/costModel.ts';
import type { SimulatedNetwork, SimulatedPath } from './simulate.ts';

type Ends = Pick<SimulatedPath, 'first' | 'second'>;

/**
 * Creates the network of tabs on one machine. The machine's cores carry all frames one after the
 * other.
 */
export function networkOfOneMachine(n: number, costs: NetworkCosts): SimulatedNetwork {
  const { sharedMsPerByte, crowdMsPerByte, sharedMsPerFrame } = costs;
  const cores = { msPerByte: sharedMsPerByte + n * crowdMsPerByte, msPerFrame: sharedMsPerFrame };
  return network(costs, [cores], () => ({ first: 0, second: null }));
}

/**
 * Creates a network in which each rank has a machine of its own. The machines are connected by a
 * switch that is never the bottleneck. Each rank has an uplink and a downlink to the switch.
 */
export function switchedNetwork(n: number, costs: NetworkCosts, downMsPerByte = costs.msPerByte): SimulatedNetwork {
  const ups = Array.from({ length: n }, () => ({ msPerByte: costs.msPerByte, msPerFrame: costs.sharedMsPerFrame }));
  const downs = Array.from({ length: n }, () => ({ msPerByte: downMsPerByte, msPerFrame: 0 }));
  return network(costs, [...ups, ...downs], (from, to) => ({ first: from, second: n + to }));
}

/**
 * Creates a Wi-Fi network in which `perPoint` consecutive ranks share an access point. A frame
 * passes the radio channel of the sender's access point, and then that of the receiver's access
 * point.
 */
export function wirelessNetwork(n: number, costs: NetworkCosts, perPoint: number): SimulatedNetwork {
  const points = Array.from({ length: Math.ceil(n / perPoint) }, () => ({ msPerByte: costs.msPerByte, msPerFrame: 0 }));
  const pointOf = (rank: number): number => Math.floor(rank / perPoint);
  return network(costs, points, (from, to) => ({ first: pointOf(from), second: pointOf(to) }));
}

function network(
  costs: NetworkCosts,
  resources: SimulatedNetwork['resources'],
  endsOf: (from: number, to: number) => Ends,
): SimulatedNetwork {
  const latency = { latencyMs: costs.hopMs, latencyMsPerByte: costs.hopMsPerByte };
  return {
    resources,
    pathOf: (from, to) => ({ ...endsOf(from, to), ...latency }),
    combineMsPerByte: costs.combineMsPerByte,
  };
}
