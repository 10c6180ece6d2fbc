// Checks the Kubernetes manifests that `millrace launch` prints: `node manifests.mjs FILE`. Deployments and services are
// checked against the published schemas (package kubernetes-models). The MPI operator's schema is in no registry that the
// tests use, so this script checks the fields of an MPIJob itself, as the operator's v2beta1 API documents them. Prints
// the objects as JSON, or an error and exits with 1. The manifests are never applied to a cluster.
import {readFileSync} from 'node:fs';
import {createRequire} from 'node:module';
import {loadAll} from 'js-yaml';

const require = createRequire(import.meta.url);
const {Deployment} = require('kubernetes-models/apps/v1');
const {Service} = require('kubernetes-models/v1');
const {Pod} = require('kubernetes-models/v1');

const kPublished = {Deployment, Service};

function expect(holds, what) {
  if (!holds) throw new Error(what);
}

function only(object, names, where) {
  for (const name of Object.keys(object)) expect(names.includes(name), `${where}: unknown field ${name}`);
}

/** Checks a pod's template by the published schema of pods. */
function checkTemplate(template, where) {
  only(template, ['metadata', 'spec'], where);
  new Pod({metadata: {name: 'pod'}, spec: template.spec}).validate();
}

function checkMpiJob(job) {
  expect(job.apiVersion === 'kubeflow.org/v2beta1', `MPIJob: apiVersion is ${job.apiVersion}`);
  only(job.spec, ['slotsPerWorker', 'runPolicy', 'mpiReplicaSpecs', 'sshAuthMountPath', 'launcherCreationPolicy',
    'mpiImplementation'], 'spec');
  expect(Number.isInteger(job.spec.slotsPerWorker) && job.spec.slotsPerWorker > 0, 'spec.slotsPerWorker is not above 0');
  only(job.spec.runPolicy ?? {}, ['cleanPodPolicy', 'ttlSecondsAfterFinished', 'activeDeadlineSeconds', 'backoffLimit',
    'schedulingPolicy', 'suspend', 'managedBy'], 'spec.runPolicy');
  expect(['None', 'Running', 'All', undefined].includes(job.spec.runPolicy?.cleanPodPolicy), 'spec.runPolicy.cleanPodPolicy');
  only(job.spec.mpiReplicaSpecs, ['Launcher', 'Worker'], 'spec.mpiReplicaSpecs');
  for (const role of ['Launcher', 'Worker']) {
    const replica = job.spec.mpiReplicaSpecs[role];
    expect(replica !== undefined, `spec.mpiReplicaSpecs.${role} is missing`);
    only(replica, ['replicas', 'template', 'restartPolicy'], role);
    expect(Number.isInteger(replica.replicas) && replica.replicas > 0, `${role}: replicas is not above 0`);
    checkTemplate(replica.template, `${role}.template`);
  }
  expect(job.spec.mpiReplicaSpecs.Launcher.replicas === 1, 'there must be one launcher');
}

try {
  const objects = loadAll(readFileSync(process.argv[2], 'utf8'));
  for (const object of objects) {
    if (object.kind === 'MPIJob') checkMpiJob(object);
    else if (object.kind in kPublished) new kPublished[object.kind](object).validate();
    else throw new Error(`unknown kind ${object.kind}`);
  }
  console.log(JSON.stringify(objects));
} catch (error) {
  console.error(error.message);
  process.exit(1);
}
