/** The part of a replica that answers the calls of a `DataParallel`. */
import * as tf from '@tensorflow/tfjs';
import { createFlatLayout } from '../../parallel/flat/buckets.ts';
import { TensorReader, variablesOf, writeVariables, type Model } from '../../parallel/backward/flatten.ts';
import { asError, UsageError } from '../../util/errors.ts';
import {
  arrayBuffersOf,
  createTensor,
  readTensor,
  type ArrayTensor,
  type FromReplica,
  type ReplicaCall,
} from './messages.ts';
import type { ReplicaPort, ReplicaResult, ToReplica } from './messages.ts';
import { ReplicaPass } from './replicaPass.ts';
import { rebuildReplicaModel } from './replicaModel.ts';

export interface ReplicaDevice {
  /**
   * Throws DeviceError if the results since the last check are invalid, because of an error of the
   * device.
   */
  check(): void;
}

/**
 * Serves calls until `close`. Errors are sent back.
 *
 * @param openDevice opens a device and makes it the backend of TensorFlow.js. It is called when the
 *   replica is started.
 */
export function serveDataParallelReplica(end: ReplicaPort, openDevice: () => Promise<ReplicaDevice>): void {
  let replica: Promise<Replica> | null = null;
  const answer = async (call: Exclude<ReplicaCall, { type: 'close' }>): Promise<ReplicaResult> => {
    if (call.type === 'start') {
      replica = openDevice().then(async (device) => new Replica(await rebuildReplicaModel(call.model), device));
      return nothing(await replica);
    }
    if (!replica) throw new UsageError('The replica was not started.');
    return (await replica).answer(call);
  };
  const onmessage = ({ data: { id, ...call } }: MessageEvent<ToReplica>): void => {
    if (call.type === 'close') {
      end.removeEventListener('message', onmessage);
      void replica?.then((built) => built.dispose()).catch(() => {});
      end.close?.();
      return;
    }
    void answer(call).then(
      (result) => {
        const reply: FromReplica = { id, result };
        end.postMessage(reply, arrayBuffersOf(result.tensors));
      },
      (error: unknown) => {
        const { name, message } = asError(error);
        const reply: FromReplica = { id, error: { name, message } };
        end.postMessage(reply);
      },
    );
  };
  end.addEventListener('message', onmessage);
  end.start?.();
}

class Replica {
  readonly pass: ReplicaPass;
  readonly #model: Model;
  readonly #device: ReplicaDevice;
  readonly #reader = new TensorReader();

  constructor(model: Model, device: ReplicaDevice) {
    this.#model = model;
    this.#device = device;
    this.pass = new ReplicaPass(model, variablesOf(model));
  }

  async answer(call: Exclude<ReplicaCall, { type: 'start' | 'close' }>): Promise<ReplicaResult> {
    switch (call.type) {
      case 'replicate': {
        const { parameters, buffers } = variablesOf(this.#model);
        writeVariables(parameters, createFlatLayout(parameters.map(({ size }) => size)).slots, call.parameters);
        writeVariables(buffers, createFlatLayout(buffers.map(({ size }) => size)).slots, call.buffers);
        break;
      }
      case 'forward':
        return this.#forward(call.inputs, call.training);
      case 'backward':
        return this.#backward(call.gradients);
      case 'drop':
        this.pass.drop();
    }
    return nothing(this);
  }

  async #forward(arrays: readonly ArrayTensor[], training: boolean): Promise<ReplicaResult> {
    this.pass.begin();
    const inputs = arrays.map(createTensor);
    let outputs: readonly tf.Tensor[] = [];
    try {
      outputs = training ? this.pass.forward(inputs) : this.pass.predict(inputs);
      const tensors = await Promise.all(outputs.map(readTensor));
      this.#device.check();
      return { tensors, memory: this.pass.memory };
    } catch (error) {
      this.pass.drop();
      tf.dispose(inputs);
      throw error;
    } finally {
      if (!training) tf.dispose([inputs, [...outputs]]);
    }
  }

  async #backward(arrays: readonly ArrayTensor[]): Promise<ReplicaResult> {
    const given = arrays.map(createTensor);
    let gradients: tf.Tensor[] = [];
    try {
      gradients = this.pass.backward(given);
      const { slots, size } = createFlatLayout(gradients.map((gradient) => gradient.size));
      const values = new Float32Array(size);
      await this.#reader.read(
        0,
        slots.map(({ parameter }) => gradients[parameter]!),
        values,
      );
      this.#device.check();
      return { tensors: [{ values, shape: [size] }], memory: this.pass.memory };
    } finally {
      tf.dispose([given, gradients]);
    }
  }

  dispose(): void {
    this.pass.drop();
    this.#reader.dispose();
    this.#model.dispose();
  }
}

function nothing({ pass }: Replica): ReplicaResult {
  return { tensors: [], memory: pass.memory };
}
