# SPDX-License-Identifier: Apache-2.0
"""Private clusters of brokers and of databases, whose nodes are killed, stopped and cut off.

Their nodes are servers of :mod:`fleet_trial.private_servers`.
"""

from tests.clusters.galera import GaleraCluster, GaleraNode, galera_cluster
from tests.clusters.postgresql import PostgreSQLCluster, postgresql_cluster
from tests.clusters.rabbitmq import RabbitMQCluster, rabbitmq_cluster

__all__ = [
    "GaleraCluster",
    "GaleraNode",
    "PostgreSQLCluster",
    "RabbitMQCluster",
    "galera_cluster",
    "postgresql_cluster",
    "rabbitmq_cluster",
]
