#!/bin/sh
case "$*" in
    *config*) cat "{answers}/machine-config.txt" ;;
    *nodes*) cat "{answers}/machine-nodes.txt" ;;
    *partitions*) cat "{answers}/machine-partitions.txt" ;;
    *qos*) cat "{answers}/machine-qos.txt" ;;
    *associations*) cat "{answers}/machine-associations.txt" ;;
    *users*) cat "{answers}/machine-users.txt" ;;
    *) exit 1 ;;
esac
